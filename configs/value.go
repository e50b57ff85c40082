package configs

import (
	"math"
	"strconv"

	"github.com/seed-0724f904/sb/core"
)

// The kinds of settings. Each reads text and writes the field, and the other way round.

func text(name, fallback, doc string, field func(*Config) *string) key {
	return key{
		name, fallback, doc,
		func(c *Config, s string) error { *field(c) = s; return nil },
		func(c Config) string { return *field(&c) },
	}
}

func size(name, fallback, doc string, field func(*Config) *core.Bytes) key {
	return key{
		name, fallback, doc,
		func(c *Config, s string) (err error) { *field(c), err = core.ParseBytes(s); return err },
		func(c Config) string { return field(&c).String() },
	}
}

func duration(name, fallback, doc string, field func(*Config) *core.Duration) key {
	return key{
		name, fallback, doc,
		func(c *Config, s string) (err error) { *field(c), err = core.ParseDuration(s); return err },
		func(c Config) string { return field(&c).String() },
	}
}

func whole(name, fallback, doc string, field func(*Config) *int) key {
	return key{
		name, fallback, doc,
		func(c *Config, s string) error {
			n, err := strconv.Atoi(s)
			if err != nil || n < 0 {
				return core.Errorf(core.KindUsage, "config", s, "not a whole number from 0 up")
			}
			*field(c) = n
			return nil
		},
		func(c Config) string { return strconv.Itoa(*field(&c)) },
	}
}

func decimal(name, fallback, doc string, field func(*Config) *float64) key {
	return key{
		name, fallback, doc,
		func(c *Config, s string) error {
			n, err := strconv.ParseFloat(s, 64)
			if err != nil || n < 0 || math.IsNaN(n) || math.IsInf(n, 0) {
				return core.Errorf(core.KindUsage, "config", s, "not a number from 0 up")
			}
			*field(c) = n
			return nil
		},
		func(c Config) string { return strconv.FormatFloat(*field(&c), 'f', -1, 64) },
	}
}
