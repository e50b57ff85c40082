package configs

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// kind is the type of a setting's value.
type kind int

const (
	kindText     kind = iota
	kindChoice        // one of key.choices
	kindSize          // for core.ParseBytes
	kindDuration      // for core.ParseDuration
	kindWhole         // a whole number, 0 or more
	kindDecimal       // a number, 0 or more
	kindPrices        // for parsePrices
)

// The constructors of settings, one for each kind.

func text(name, fallback, doc string, field func(*Config) *string) key {
	return key{
		name: name, kind: kindText, fallback: fallback, doc: doc,
		set: func(c *Config, s string) error { *field(c) = s; return nil },
		get: func(c Config) string { return *field(&c) },
	}
}

func mirrors(name, doc string, field func(*Config) *map[string][]string) key {
	return key{
		name: name, kind: kindText, doc: doc,
		set: func(c *Config, s string) (err error) { *field(c), err = core.ParseMirrors(s); return err },
		get: func(c Config) string {
			var words []string
			for _, registry := range slices.Sorted(maps.Keys(*field(&c))) {
				words = append(words, registry+"="+strings.Join((*field(&c))[registry], ","))
			}
			return strings.Join(words, " ")
		},
	}
}

func registries(name, doc string, field func(*Config) *[]string) key {
	return key{
		name: name, kind: kindText, doc: doc,
		set: func(c *Config, s string) (err error) { *field(c), err = core.ParseRegistries(s); return err },
		get: func(c Config) string { return strings.Join(*field(&c), " ") },
	}
}

func gpus(name, doc string, field func(*Config) *core.GPU) key {
	return key{
		name: name, kind: kindText, doc: doc,
		set: func(c *Config, s string) (err error) { *field(c), err = core.ParseGPU(s); return err },
		get: func(c Config) string { return field(&c).String() },
	}
}

func choice[T ~string](name, fallback, doc string, choices []string, field func(*Config) *T) key {
	return key{
		name: name, kind: kindChoice, choices: choices, fallback: fallback, doc: doc,
		set: func(c *Config, s string) error {
			if !slices.Contains(choices, s) {
				return fmt.Errorf("expected one of %s", strings.Join(choices, ", "))
			}
			*field(c) = T(s)
			return nil
		},
		get: func(c Config) string { return string(*field(&c)) },
	}
}

func size(name, fallback, doc string, field func(*Config) *core.Bytes) key {
	return key{
		name: name, kind: kindSize, fallback: fallback, doc: doc,
		set: func(c *Config, s string) (err error) { *field(c), err = core.ParseBytes(s); return err },
		get: func(c Config) string { return field(&c).Exact() },
	}
}

// ofSpec makes the setting of a field's default in defaults.
func ofSpec(name, fallback string) key {
	field := core.FieldNamed(name)
	name = "defaults." + name
	doc := field.Help()
	if field.Limit && !strings.HasSuffix(doc, noLimit) {
		doc += noLimit
	}
	switch field.Ref(&core.Spec{}).(type) {
	case *core.PullPolicy:
		return choice(name, fallback, doc, field.Choices, fieldOf[core.PullPolicy](field))
	case *float64:
		return decimal(name, fallback, doc, fieldOf[float64](field))
	case *core.Bytes:
		return size(name, fallback, doc, fieldOf[core.Bytes](field))
	case *core.Duration:
		return duration(name, fallback, doc, fieldOf[core.Duration](field))
	case *int:
		return whole(name, fallback, doc, fieldOf[int](field))
	}
	return text(name, fallback, doc, fieldOf[string](field))
}

// noLimit ends the description of a limit that may be 0.
const noLimit = "; 0 is no limit"

func fieldOf[T any](field core.Field) func(*Config) *T {
	return func(c *Config) *T { return field.Ref(&c.Defaults).(*T) }
}

func duration(name, fallback, doc string, field func(*Config) *core.Duration) key {
	return key{
		name: name, kind: kindDuration, fallback: fallback, doc: doc,
		set: func(c *Config, s string) (err error) { *field(c), err = core.ParseDuration(s); return err },
		get: func(c Config) string { return field(&c).String() },
	}
}

func whole(name, fallback, doc string, field func(*Config) *int) key {
	return key{
		name: name, kind: kindWhole, fallback: fallback, doc: doc,
		set: func(c *Config, s string) error {
			n, err := strconv.Atoi(s)
			if err != nil || n < 0 {
				return errors.New("expected a whole number, 0 or more")
			}
			*field(c) = n
			return nil
		},
		get: func(c Config) string { return strconv.Itoa(*field(&c)) },
	}
}

func decimal(name, fallback, doc string, field func(*Config) *float64) key {
	return key{
		name: name, kind: kindDecimal, fallback: fallback, doc: doc,
		set: func(c *Config, s string) error {
			n, err := strconv.ParseFloat(s, 64)
			if err != nil || n < 0 || math.IsNaN(n) || math.IsInf(n, 0) {
				return errors.New("expected a number, 0 or more")
			}
			*field(c) = n
			return nil
		},
		get: func(c Config) string { return strconv.FormatFloat(*field(&c), 'f', -1, 64) },
	}
}
