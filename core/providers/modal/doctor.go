package modal

import (
	"context"
	"os"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/client"
)

// Statuses of findings.
const (
	statusOK    = "ok"
	statusError = "error"
)

// Diagnose implements core.Doctor. Without credentials it makes no call.
func (p *Provider) Diagnose(ctx context.Context) []core.Finding {
	account := client.FindAccount(os.LookupEnv)
	findings := []core.Finding{credentialsFinding(account)}
	if account.Err != nil || account.TokenID == "" {
		return findings
	}
	return append(findings, p.serverFinding(ctx, account))
}

func credentialsFinding(account client.Account) core.Finding {
	f := core.Finding{Name: "credentials", Status: statusOK}
	switch {
	case account.Err != nil:
		f.Status, f.Detail, f.Fix = statusError, account.Err.Error(), core.HintOf(account.Err)
	case account.TokenID == "":
		err := client.NoCredentials(account)
		f.Status, f.Detail, f.Fix = statusError, err.Error()+
			", neither in the environment nor in "+account.File, core.HintOf(err)
	case account.OAuth:
		f.Detail = "OAuth client " + account.TokenID
	default:
		f.Detail = "token " + account.TokenID
		if account.Profile != "" {
			f.Detail += ", profile " + account.Profile
		}
	}
	return f
}

func (p *Provider) serverFinding(ctx context.Context, account client.Account) core.Finding {
	f := core.Finding{Name: "server", Status: statusOK, Detail: account.Server}
	begin := time.Now()
	c, err := p.connect()
	if err == nil {
		raw, rawErr := c.Raw(ctx)
		err = rawErr
		if err == nil {
			workspace, lookupErr := raw.TokenInfoGet(ctx, &pb.TokenInfoGetRequest{})
			err = lookupErr
			f.Detail += ", workspace " + workspace.GetWorkspaceName()
		}
	}
	if err = client.Classify("check", "", err); err != nil {
		return core.Finding{Name: f.Name, Status: statusError, Detail: account.Server +
			": " + err.Error(), Fix: core.HintOf(err)}
	}
	f.Detail += ", answers after " + time.Since(begin).Round(time.Millisecond).String()
	return f
}
