package cli

import (
	"os/user"
	"path/filepath"
	"sync"
	"time"

	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/commands/iostreams"
	"github.com/seed-0724f904/sb/configs"
	"github.com/seed-0724f904/sb/core/providers"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// App has the dependencies of commands. Those that can fail or touch the disk are functions, called when needed.
type App struct {
	Streams *iostreams.Streams
	Signals *Signals
	Build   Build
	// LookupEnv reads the caller's environment.
	LookupEnv func(key string) (value string, ok bool)
	Now       func() time.Time
	// Actor names the frontend in leases and in the audit log.
	Actor string
	// ConfigFile is the file named by --config, or "".
	ConfigFile string
	Paths      func() (configs.Paths, error)
	Config     func() (configs.Loaded, error)
	Service    func() (*service.Service, error)
	// Become, ServeMCP and ListTools are as in Process.
	Become    func(program string) error
	ServeMCP  setup.Serve
	ListTools setup.ListTools
}

// Table makes a table for stdout.
func (a *App) Table(headers ...string) *output.Table {
	return output.NewTable(a.Streams.Width(), a.Streams.Color(), headers...)
}

// actor and ActorUI name the shell and the dashboard in leases and in the audit log.
const (
	actor   = "cli"
	ActorUI = "ui"
)

// NewApp connects an App to the process's dependencies. Each is made on first use. The caller calls closeApp at the
// end.
func NewApp(process Process) (app *App, closeApp func()) {
	app = &App{
		Streams: process.Streams, Signals: process.Signals, Build: process.Build,
		LookupEnv: process.LookupEnv, Now: time.Now, Actor: actor,
		Become: process.Become, ServeMCP: process.ServeMCP, ListTools: process.ListTools,
	}
	app.Paths = sync.OnceValues(func() (configs.Paths, error) {
		paths, err := configs.FindPaths(app.LookupEnv)
		if app.ConfigFile != "" {
			paths.Config, paths.ConfigSet = app.ConfigFile, true
		}
		return paths, err
	})
	app.Config = sync.OnceValues(func() (configs.Loaded, error) {
		paths, err := app.Paths()
		if err != nil {
			return configs.Loaded{}, err
		}
		return configs.LoadFrom(paths, app.LookupEnv)
	})
	var opened *service.Service
	app.Service = sync.OnceValues(func() (*service.Service, error) {
		svc, err := openService(app)
		opened = svc
		return svc, err
	})
	return app, func() {
		if opened != nil {
			_ = opened.Close()
		}
	}
}

// Templates finds this user's templates.
func (a *App) Templates() (service.Templates, error) {
	paths, err := a.Paths()
	if err != nil {
		return nil, err
	}
	return TemplatesIn(TemplateDir(paths), a.LookupEnv), nil
}

// Process holds the streams, environment and signals that the operating system gives a program.
type Process struct {
	Streams   *iostreams.Streams
	LookupEnv func(key string) (value string, ok bool)
	Signals   *Signals
	Build     Build
	// Become replaces the process by another program with the same arguments and environment. It returns only on failure.
	Become func(program string) error
	// ServeMCP serves the Model Context Protocol. If it is nil, becomeMCP replaces the process instead.
	ServeMCP setup.Serve
	// ListTools lists the tools that ServeMCP serves. It is nil if ServeMCP is.
	ListTools setup.ListTools
}

func openService(app *App) (*service.Service, error) {
	paths, err := app.Paths()
	if err != nil {
		return nil, err
	}
	config, err := app.Config()
	if err != nil {
		return nil, err
	}
	return service.New(service.Options{
		HostPaths: hostPaths(app, paths, config.HostPaths),
		Actor:     app.Actor, StateDir: paths.State, Defaults: config.Defaults, Quotas: config.Quotas,
		Prices: config.PriceTables(), Templates: TemplatesIn(TemplateDir(paths), app.LookupEnv),
		Factories: providers.Builtin(providers.Options{
			StateDir: paths.State, CacheDir: paths.Cache, Runtime: config.Local.Runtime,
			SaveInterval: time.Duration(config.Local.SaveInterval), FreezeAfter: time.Duration(config.Local.FreezeAfter),
			Spares: config.Local.Spares, SpareAge: time.Duration(config.Local.SpareAge),
			LogLimit: config.Local.LogLimit, Registries: config.Images.Registries,
			MaxImages: config.Images.MaxSize,
			PipIndex:  config.Packages.PipIndex, AptMirror: config.Packages.AptMirror,
			NPMRegistry: config.Packages.NPMRegistry,
			Docker: providers.Docker{
				Host: config.Docker.Host, Image: config.Docker.Image, Runtime: config.Docker.Runtime, GPUs: config.Docker.GPUs,
				Guest: config.Docker.Guest, LookupEnv: app.LookupEnv,
			},
		}),
	}), nil
}

// hostPaths returns the host directories that sandboxes may mount. setting is that of host_paths.
func hostPaths(app *App, paths configs.Paths, setting string) service.HostPaths {
	dir, err := filepath.Abs(".")
	if err != nil {
		dir = "" // it was removed: only relative paths need it
	}
	allowed := service.HostPaths{Dir: dir, Own: []string{paths.State, paths.Cache, filepath.Dir(paths.Config)}}
	if home, _ := app.LookupEnv("HOME"); filepath.IsAbs(home) {
		allowed.Homes = append(allowed.Homes, home)
	}
	if account, err := user.Current(); err == nil && filepath.IsAbs(account.HomeDir) {
		allowed.Homes = append(allowed.Homes, account.HomeDir)
	}
	for _, entry := range filepath.SplitList(setting) {
		if entry != "" {
			allowed.Allowed = append(allowed.Allowed, allowed.Absolute(entry))
		}
	}
	return allowed
}
