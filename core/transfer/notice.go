package transfer

import (
	"fmt"
	"strings"
)

// notice is a kind of file that is not copied exactly.
type notice string

const (
	noticeKind    notice = "left out: only files, directories and links are copied"
	noticeBits    notice = "copied without the setuid, setgid and sticky bits"
	noticeGit     notice = "left out: the target has its own; --include-git copies it"
	noticeOrigin  notice = "pushed, but not recorded: sb diff and sb apply do not know it"
	noticeOutside notice = "copied as links that point outside the copy"
)

// noticed is the highest number of names in a notice.
const noticed = 8

// notices are the warnings of a copy, by kind.
type notices struct {
	order []notice
	names map[notice][]string
	count map[notice]int
}

// add records a name, which may be hostile.
func (n *notices) add(what notice, name string) {
	if n.count == nil {
		n.count, n.names = map[notice]int{}, map[notice][]string{}
	}
	if n.count[what] == 0 {
		n.order = append(n.order, what)
	}
	n.count[what]++
	if len(n.names[what]) < noticed {
		n.names[what] = append(n.names[what], name)
	}
}

// list returns a sentence for each kind.
func (n *notices) list() []string {
	var list []string
	for _, what := range n.order {
		text := strings.Join(n.names[what], ", ")
		if more := n.count[what] - len(n.names[what]); more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		list = append(list, string(what)+": "+text)
	}
	return list
}
