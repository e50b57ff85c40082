package cli

import (
	"path/filepath"
	"sync"
	"time"

	"github.com/seed-0724f904/sb/configs"
	"github.com/seed-0724f904/sb/core/providers"
	"github.com/seed-0724f904/sb/core/service"
)

// actor and actorUI are how the shell and the dashboard are named in leases and in the audit log.
const (
	actor   = "cli"
	ActorUI = "ui"
)

// NewApp wires the real dependencies, each made when it is first needed. The caller calls closeApp at the end.
func NewApp(process Process) (app *App, closeApp func()) {
	app = &App{
		Streams: process.Streams, Signals: process.Signals, Build: process.Build,
		LookupEnv: process.LookupEnv, Now: time.Now, Actor: actor,
		Become: process.Become, ServeMCP: process.ServeMCP,
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
		Actor: app.Actor, StateDir: paths.State, Defaults: config.Defaults, Quotas: config.Quotas,
		Prices: config.PriceTables(), Templates: TemplatesIn(TemplateDir(paths), app.LookupEnv),
		Factories: providers.Builtin(providers.Options{
			StateDir: paths.State, CacheDir: paths.Cache, Runtime: config.Local.Runtime,
			SaveInterval: time.Duration(config.Local.SaveInterval), FreezeAfter: time.Duration(config.Local.FreezeAfter),
			LogLimit: config.Local.LogLimit,
			Docker: providers.Docker{
				Host: config.Docker.Host, Image: config.Docker.Image, Runtime: config.Docker.Runtime, GPUs: config.Docker.GPUs,
				Guest: config.Docker.Guest, Mounts: filepath.SplitList(config.Docker.Mounts),
				LookupEnv: app.LookupEnv,
			},
		}),
	}), nil
}
