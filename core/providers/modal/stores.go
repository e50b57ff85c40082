package modal

import (
	"context"
	"strings"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/client"
)

// storePage is the most entries that Modal lists in one reply.
const storePage = 100

// control returns the client and the control plane's interface. Without credentials it returns an error.
func (p *Provider) control(ctx context.Context, op string) (*client.Client, pb.ModalClientClient, error) {
	c, err := p.connect()
	if err != nil {
		return nil, nil, err
	}
	raw, err := c.Raw(ctx)
	return c, raw, client.Classify(op, "", err)
}

// pages calls page for each page of a list, newest entries first. page gets the upper bound of the creation time. It
// returns the number of entries and the creation time of the oldest.
func pages(page func(*pb.ListPagination) (count int, oldest float64, err error)) error {
	before := float64(time.Now().Add(time.Hour).Unix())
	for {
		count, oldest, err := page(pb.ListPagination_builder{MaxObjects: storePage, CreatedBefore: before}.Build())
		if err != nil || count < storePage || oldest >= before {
			return err
		}
		before = oldest
	}
}

// Volumes implements core.VolumeStore.
func (p *Provider) Volumes(ctx context.Context) ([]core.VolumeInfo, error) {
	c, raw, err := p.control(ctx, "volume")
	if client.NoAccount(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var volumes []core.VolumeInfo
	err = pages(func(page *pb.ListPagination) (int, float64, error) {
		reply, err := raw.VolumeList(
			ctx, pb.VolumeListRequest_builder{EnvironmentName: c.Account.Environment, Pagination: page}.Build(),
		)
		oldest := 0.0
		for _, item := range reply.GetItems() {
			oldest = item.GetCreatedAt()
			volumes = append(volumes, core.VolumeInfo{
				Name: item.GetLabel(), ID: item.GetVolumeId(), Provider: Name, Created: fromUnix(oldest),
				Version: volumeVersion(item.GetMetadata().GetVersion()),
			})
		}
		return len(reply.GetItems()), oldest, err
	})
	return volumes, client.Classify("volume", "", err)
}

// volumeVersion returns the number of a format. An unspecified format is the first one.
func volumeVersion(version pb.VolumeFsVersion) int {
	if version == pb.VolumeFsVersion_VOLUME_FS_VERSION_V2 {
		return 2
	}
	return 1
}

// CreateVolume implements core.VolumeStore.
func (p *Provider) CreateVolume(ctx context.Context, name string, opts core.VolumeOptions) (core.VolumeInfo, error) {
	if opts.Size != 0 || len(opts.Labels) > 0 {
		return core.VolumeInfo{}, core.Errorf(
			core.KindUnsupported, "modal.volume", name, "Modal's volumes have no size and no labels",
		).WithHint("leave them out")
	}
	version := pb.VolumeFsVersion_VOLUME_FS_VERSION_UNSPECIFIED
	switch opts.Version {
	case 0:
	case 1:
		version = pb.VolumeFsVersion_VOLUME_FS_VERSION_V1
	case 2:
		version = pb.VolumeFsVersion_VOLUME_FS_VERSION_V2
	default:
		return core.VolumeInfo{}, core.Errorf(
			core.KindUsage, "modal.volume", name, "Modal's volumes have version 1 or 2, not %d", opts.Version,
		)
	}
	c, raw, err := p.control(ctx, "volume")
	if err != nil {
		return core.VolumeInfo{}, err
	}
	reply, err := raw.VolumeGetOrCreate(ctx, pb.VolumeGetOrCreateRequest_builder{
		DeploymentName: name, EnvironmentName: c.Account.Environment, Version: version,
		ObjectCreationType: pb.ObjectCreationType_OBJECT_CREATION_TYPE_CREATE_FAIL_IF_EXISTS,
	}.Build())
	if err != nil {
		return core.VolumeInfo{}, client.Classify("volume", name, err)
	}
	c.Cache.Put(client.CachedVolumes, name, reply.GetVolumeId())
	return core.VolumeInfo{
		Name: name, ID: reply.GetVolumeId(), Provider: Name, Created: time.Now().
			UTC(), Version: volumeVersion(max(version, reply.GetMetadata().GetVersion())),
	}, nil
}

// RemoveVolume implements core.VolumeStore.
func (p *Provider) RemoveVolume(ctx context.Context, name string) error {
	c, err := p.connect()
	if err != nil {
		return err
	}
	c.Cache.Put(client.CachedVolumes, name, "")
	return client.Classify("volume", name, c.SDK.Volumes.Delete(ctx, name, nil))
}

// Secrets implements core.SecretStore.
func (p *Provider) Secrets(ctx context.Context) ([]core.SecretInfo, error) {
	c, raw, err := p.control(ctx, "secret")
	if err != nil {
		return nil, err
	}
	var secrets []core.SecretInfo
	err = pages(func(page *pb.ListPagination) (int, float64, error) {
		reply, err := raw.SecretList(
			ctx, pb.SecretListRequest_builder{EnvironmentName: c.Account.Environment, Pagination: page}.Build(),
		)
		oldest := 0.0
		for _, item := range reply.GetItems() {
			oldest = item.GetCreatedAt()
			secrets = append(secrets, core.SecretInfo{
				Name: item.GetLabel(), ID: item.GetSecretId(), Provider: Name, Created: fromUnix(oldest),
				LastUsed: fromUnix(item.GetLastUsedAt()),
				Keys:     item.GetMetadata().GetKeys(),
			})
		}
		return len(reply.GetItems()), oldest, err
	})
	return secrets, client.Classify("secret", "", err)
}

// CreateSecret implements core.SecretStore.
func (p *Provider) CreateSecret(
	ctx context.Context, name string, values map[string]core.SecretValue, opts core.SecretOptions,
) (core.SecretInfo, error) {
	c, raw, err := p.control(ctx, "secret")
	if err != nil {
		return core.SecretInfo{}, err
	}
	made := core.SecretInfo{Name: name, Provider: Name, Created: time.Now().UTC()}
	env := make(map[string]string, len(values))
	for key, value := range values {
		env[key] = value.Reveal()
		made.Keys = append(made.Keys, key)
	}
	how := pb.ObjectCreationType_OBJECT_CREATION_TYPE_CREATE_FAIL_IF_EXISTS
	if opts.Replace {
		how = pb.ObjectCreationType_OBJECT_CREATION_TYPE_CREATE_OVERWRITE_IF_EXISTS
	}
	reply, err := raw.SecretGetOrCreate(ctx, pb.SecretGetOrCreateRequest_builder{
		DeploymentName: name, EnvironmentName: c.Account.Environment, ObjectCreationType: how, EnvDict: env,
	}.Build())
	if err != nil {
		return core.SecretInfo{}, client.Classify("secret", name, err)
	}
	made.ID = reply.GetSecretId()
	c.Cache.Put(client.CachedSecrets, name, made.ID)
	return made, nil
}

// RemoveSecret implements core.SecretStore.
func (p *Provider) RemoveSecret(ctx context.Context, name string) error {
	c, err := p.connect()
	if err != nil {
		return err
	}
	c.Cache.Put(client.CachedSecrets, name, "")
	return client.Classify("secret", name, c.SDK.Secrets.Delete(ctx, name, nil))
}

// Apps implements core.AppStore.
func (p *Provider) Apps(ctx context.Context) ([]core.AppInfo, error) {
	list, err := p.appList(ctx)
	if client.NoAccount(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var apps []core.AppInfo
	for _, app := range list {
		switch app.GetState() { //nolint:exhaustive // one state is deprecated
		case pb.AppState_APP_STATE_STOPPED, pb.AppState_APP_STATE_STOPPING, pb.AppState_APP_STATE_DISABLED:
			continue
		case pb.AppState_APP_STATE_UNSPECIFIED, pb.AppState_APP_STATE_EPHEMERAL, pb.AppState_APP_STATE_DETACHED,
			pb.AppState_APP_STATE_DEPLOYED,
			pb.AppState_APP_STATE_INITIALIZING, pb.AppState_APP_STATE_DETACHED_DISCONNECTED:
		}
		state := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(app.GetState().String(), "APP_STATE_")), "_", " ")
		apps = append(
			apps,
			core.AppInfo{
				Name: appName(app), ID: app.GetAppId(), Provider: Name, State: state, Created: fromUnix(app.GetCreatedAt()),
			},
		)
	}
	return apps, nil
}

func (p *Provider) appList(ctx context.Context) ([]*pb.AppListResponse_AppListItem, error) {
	c, raw, err := p.control(ctx, "app")
	if err != nil {
		return nil, err
	}
	reply, err := raw.AppList(ctx, pb.AppListRequest_builder{EnvironmentName: c.Account.Environment}.Build())
	return reply.GetApps(), client.Classify("app", "", err)
}

// appName returns the name of an app, or its description if it has none.
func appName(app *pb.AppListResponse_AppListItem) string {
	if app.GetName() != "" {
		return app.GetName()
	}
	return app.GetDescription()
}

// StopApp implements core.AppStore.
func (p *Provider) StopApp(ctx context.Context, name string) error {
	list, err := p.appList(ctx)
	if err != nil {
		return err
	}
	c, raw, err := p.control(ctx, "app")
	if err != nil {
		return err
	}
	c.Cache.Put(client.CachedApps, name, "")
	for _, app := range list {
		if appName(app) == name {
			_, err := raw.AppStop(
				ctx, pb.AppStopRequest_builder{AppId: app.GetAppId(), Source: pb.AppStopSource_APP_STOP_SOURCE_CLI}.Build(),
			)
			return client.Classify("app", name, err)
		}
	}
	return core.Errorf(core.KindNotFound, "modal.app", name, "there is no app %q", name)
}

// Environments implements core.EnvironmentStore.
func (p *Provider) Environments(ctx context.Context) ([]core.EnvironmentInfo, error) {
	c, raw, err := p.control(ctx, "environment")
	if err != nil {
		return nil, err
	}
	reply, err := raw.EnvironmentList(ctx, &emptypb.Empty{})
	if err != nil {
		return nil, client.Classify("environment", "", err)
	}
	var environments []core.EnvironmentInfo
	for _, item := range reply.GetItems() {
		current := item.GetName() == c.Account.Environment || c.Account.Environment == "" && item.GetDefault()
		environments = append(environments, core.EnvironmentInfo{Name: item.GetName(), Provider: Name, Current: current})
	}
	return environments, nil
}

// CreateEnvironment implements core.EnvironmentStore.
func (p *Provider) CreateEnvironment(ctx context.Context, name string) (core.EnvironmentInfo, error) {
	_, raw, err := p.control(ctx, "environment")
	if err != nil {
		return core.EnvironmentInfo{}, err
	}
	_, err = raw.EnvironmentCreate(ctx, pb.EnvironmentCreateRequest_builder{Name: name}.Build())
	return core.EnvironmentInfo{Name: name, Provider: Name}, client.Classify("environment", name, err)
}

// RemoveEnvironment implements core.EnvironmentStore.
func (p *Provider) RemoveEnvironment(ctx context.Context, name string) error {
	_, raw, err := p.control(ctx, "environment")
	if err != nil {
		return err
	}
	_, err = raw.EnvironmentDelete(ctx, pb.EnvironmentDeleteRequest_builder{Name: name}.Build())
	return client.Classify("environment", name, err)
}
