package core

import (
	"crypto/rand"
	"encoding/base32"
	"math/big"
	"strings"
)

// MaxName is the longest sandbox or app name: a DNS label, since the name is the hostname.
const MaxName = 63

// ValidateName checks the name of a sandbox or an app. A name has 1 to 63 characters of a to z, 0 to 9, '-', '_' and
// '.', and begins with a letter or digit. Sandboxes.Launch also rejects names that look like ids.
func ValidateName(what, name string) error {
	if name == "" || len(name) > MaxName {
		return Errorf(KindUsage, "validate", "", "%s must have 1 to %d characters, not %d", what, MaxName, len(name))
	}
	for i := range len(name) {
		c := name[i]
		letter := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '-' && c != '_' && c != '.') {
			return Errorf(KindUsage, "validate", "", "%s %q has a character that is not allowed", what, name).
				WithHint("use a-z, 0-9, '-', '_' and '.', beginning with a letter or digit")
		}
	}
	return nil
}

// NewName returns a random name that is easy to pronounce: "brave-otter-417".
func NewName() string {
	adjectives := strings.Fields(
		"able bold brave brisk calm clear clever cool crisp deft eager fair fast fine fond free fresh glad good grand " +
			"happy keen kind light lively lucky mellow merry mild neat nimble noble plain prime proud quick quiet rapid ready " +
			"sharp shiny smart smooth snug solid spry steady still sunny swift tidy vivid warm wise witty young zesty",
	)
	animals := strings.Fields(
		"ant auk bat bear bee bison boar cat cod colt crab crane crow deer dingo dove duck eagle eel egret elk emu falcon " +
			"ferret finch fox frog gecko goat goose gull hare hawk hen heron ibex ibis jay kiwi koala lark lemur lion llama " +
			"lynx mole moose moth mouse newt okapi otter owl panda perch pony puffin quail rabbit raven robin seal shrew " +
			"skunk sloth snail stoat stork swan tapir tern tiger toad trout vole wasp whale wolf wren yak zebra",
	)
	return pick(adjectives) + "-" + pick(animals) +
		"-" + pick(strings.Split("0123456789", "")) + pick(strings.Split("0123456789", "")) + pick(strings.Split(
		"0123456789", "",
	))
}

func pick(words []string) string {
	n, err := rand.Int(rand.Reader, big.NewInt(int64(len(words))))
	if err != nil {
		return words[0] // crypto/rand never fails on the platforms that Go supports
	}
	return words[n.Int64()]
}

// NewID returns a random id with a provider's prefix: 40 bits in lower-case base32.
func NewID(prefix string) string {
	var random [5]byte
	_, _ = rand.Read(random[:])
	return prefix + strings.ToLower(base32.StdEncoding.EncodeToString(random[:]))
}

// Nearest returns the candidate that is most similar to word, or "" when none is close enough to be a typing error.
func Nearest(word string, candidates []string) string {
	best, bestDistance := "", max(len(word)/3, 1)+1
	for _, c := range candidates {
		if d := editDistance(word, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// editDistance is the Levenshtein distance.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		previous := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			previous, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, previous+cost)
		}
	}
	return row[len(b)]
}
