//go:build linux

package socket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Spare is the part of a Launch that makes the supervisor prepare a sandbox for a later launch.
type Spare struct {
	// State is the state directory, which has the spare's ticket.
	State string `json:"state"`
	// Age is the time after which an unclaimed spare ends.
	Age time.Duration `json:"age"`
}

// ClaimName is the name of a spare's socket in its runtime directory.
const ClaimName = "claim.sock"

// claimTimeout bounds the time between a client's connection to a spare and the end of its request.
const claimTimeout = 10 * time.Second

// Claim sends a launch request to a spare. The answers on the connection are as on a supervisor's standard output:
// LaunchStatus lines. The caller closes the connection.
func Claim(ctx context.Context, path string, launch *Launch) (net.Conn, error) {
	conn, err := connect(ctx, path)
	if err != nil {
		return nil, err
	}
	if err := json.NewEncoder(conn).Encode(launch); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// ReadClaim reads the request of Claim. The client must be of the same user. After an error it closes the connection.
func ReadClaim(conn net.Conn) (launch Launch, err error) {
	defer func() {
		if err != nil {
			_ = conn.Close()
		}
	}()
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return launch, errors.New("not a unix socket")
	}
	if same, err := sameUser(unixConn); err != nil || !same {
		return launch, errors.Join(err, errors.New("the client is another user"))
	}
	if err := conn.SetDeadline(time.Now().Add(claimTimeout)); err != nil {
		return launch, err
	}
	if err := json.NewDecoder(io.LimitReader(conn, maxMessage)).Decode(&launch); err != nil {
		return launch, fmt.Errorf("reading the claim: %w", err)
	}
	return launch, conn.SetDeadline(time.Time{})
}
