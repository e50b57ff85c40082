package guesttext

import (
	"strconv"
	"strings"
)

// pen holds the current colors and attributes. It ignores blinking, which distracts, and concealed text, which hides
// content.
type pen struct {
	fg, bg     string // parameters such as "31" or "38;5;208"; "" is the default
	attributes [10]bool
}

// set applies the parameters of an SGR sequence.
func (p *pen) set(params string) {
	fields := strings.FieldsFunc(params, func(r rune) bool { return r == ';' })
	if len(fields) == 0 {
		*p = pen{}
		return
	}
	for i := 0; i < len(fields); i++ {
		head, rest, colons := strings.Cut(fields[i], ":")
		n, err := strconv.Atoi(head)
		if err != nil {
			continue
		}
		switch {
		case n == 0:
			*p = pen{}
		case n == 1 || n == 2 || n == 3 || n == 7 || n == 9:
			p.attributes[n] = true
		case n == 4:
			p.attributes[4] = rest != "0"
		case n == 21:
			p.attributes[4] = true
		case n == 22:
			p.attributes[1], p.attributes[2] = false, false
		case n == 23 || n == 24 || n == 27 || n == 29:
			p.attributes[n-20] = false
		case n >= 30 && n <= 37 || n >= 90 && n <= 97:
			p.fg = head
		case n >= 40 && n <= 47 || n >= 100 && n <= 107:
			p.bg = head
		case n == 39:
			p.fg = ""
		case n == 49:
			p.bg = ""
		case n == 38 || n == 48 || n == 58:
			var color string
			if colons {
				color = colonColor(rest)
			} else {
				var used int
				color, used = semicolonColor(fields[i+1:])
				i += used
			}
			switch {
			case color == "":
			case n == 38:
				p.fg = "38;" + color
			case n == 48:
				p.bg = "48;" + color
			}
		}
	}
}

// colonColor reads the parameters after "38:", with or without a color space.
func colonColor(text string) string {
	fields := strings.Split(text, ":")
	if len(fields) == 5 && fields[0] == "2" {
		fields = append(fields[:1], fields[2:]...)
	}
	color, _ := semicolonColor(fields)
	return color
}

// semicolonColor reads "5;N" or "2;R;G;B" and returns the number of fields used.
func semicolonColor(fields []string) (color string, used int) {
	want := 0
	switch {
	case len(fields) == 0:
		return "", 0
	case fields[0] == "5":
		want = 2
	case fields[0] == "2":
		want = 4
	default:
		return "", 1
	}
	if len(fields) < want {
		return "", len(fields)
	}
	for _, f := range fields[1:want] {
		if n, err := strconv.Atoi(f); err != nil || n < 0 || n > 255 {
			return "", want
		}
	}
	return strings.Join(fields[:want], ";"), want
}

// code returns the sequence that resets all attributes and sets this pen.
func (p pen) code() string {
	if p == (pen{}) {
		return reset
	}
	var b strings.Builder
	b.WriteString("\x1b[0")
	for n, on := range p.attributes {
		if on {
			b.WriteByte(';')
			b.WriteString(strconv.Itoa(n))
		}
	}
	for _, color := range []string{p.fg, p.bg} {
		if color != "" {
			b.WriteByte(';')
			b.WriteString(color)
		}
	}
	b.WriteByte('m')
	return b.String()
}

// reset sets the default pen.
const reset = "\x1b[0m"
