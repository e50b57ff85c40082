package tui

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/seed-0724f904/sb/core/service"
)

// The panes cover the screen and do not overlap, at any size.
func TestLayoutCoversTheScreen(t *testing.T) {
	for _, split := range []string{splitAuto, splitSide, splitStack} {
		for ratio := 10; ratio <= 90; ratio += 20 {
			for w := 1; w < 300; w += 7 {
				for h := 1; h < 100; h += 3 {
					for _, a := range []arrangement{
						{}, {focus: paneDetail}, {zoomed: true, focus: paneDetail}, {tableOnly: true, focus: paneDetail}, {jobs: 5},
					} {
						a.split, a.ratio = split, ratio
						l := arrange(w, h, a)
						area := 0
						for _, r := range []rect{l.header, l.table, l.splitter, l.detail, l.jobs, l.footer} {
							if r.w < 0 || r.h < 0 || !r.empty() && (r.x < 0 || r.y < 0 || r.x+r.w > w || r.y+r.h > h) {
								t.Fatalf("%+v at %dx%d: %+v", a, w, h, r)
							}
							if !r.empty() {
								area += r.w * r.h
							}
						}
						if area != w*h {
							t.Fatalf("%+v at %dx%d covers %d cells: %+v", a, w, h, area, l)
						}
					}
				}
			}
		}
	}
}

// A provider that is not set up is not shown as failed.
func TestProviderNotSetUp(t *testing.T) {
	m := still(t, Options{}, 120, 30)
	status := service.ProviderStatus{Name: "modal", Error: "there are no credentials", Hint: "log in"}
	for _, want := range []string{"✗ modal", "○ modal"} {
		m.Update(checkedMsg{"modal", status})
		if got := ansi.Strip(m.View().Content); !strings.Contains(got, want) {
			t.Errorf("with %+v it shows\n%s", status, got)
		}
		status.NotSetUp = true
	}
}

func TestLayoutAdapts(t *testing.T) {
	if l := arrange(60, 15, arrangement{split: splitAuto, ratio: 50}); !l.detail.empty() || l.table.empty() {
		t.Errorf("60x15 has two panes: %+v", l)
	}
	if l := arrange(80, 24, arrangement{split: splitAuto, ratio: 50}); l.side || l.detail.empty() || l.table.empty() {
		t.Errorf("80x24 is not stacked: %+v", l)
	}
	l := arrange(200, 60, arrangement{split: splitAuto, ratio: 50})
	if !l.side {
		t.Errorf("200x60 is not side by side: %+v", l)
	}
	if r := l.ratioAt(60, 10); r < 28 || r > 32 {
		t.Errorf("dragged to column 60 of 200 the table has %d %%", r)
	}
}

func TestColumnsThatFit(t *testing.T) {
	for w := 1; w < 300; w++ {
		shown, widths := chooseColumns(columns(), w)
		total := len(shown) - 1
		for i, c := range shown {
			total += widths[i]
			if widths[i] > c.most {
				t.Errorf("%s is %d wide", c.id, widths[i])
			}
		}
		if total > w || len(shown) == 0 {
			t.Errorf("%d columns take %d of %d cells", len(shown), total, w)
		}
		if w >= 12 && shown[min(1, len(shown)-1)].id != "name" && shown[0].id != "name" {
			t.Errorf("the name column is missing at width %d", w)
		}
	}
}
