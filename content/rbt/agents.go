package rbt

import (
	"errors"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/content/preferences"
)

// Agents is what a manifest asks of those who read it (13.4). All of it is
// guidance: nothing here makes a reader do more than it would.
type Agents struct {
	Context    string
	EntryPoint string // an entry's id or reference; it may lead nowhere
	Hints      []string
	Ignore     []string // globs; see Ignores

	// Uses is what permissions say about purposes (13.5).
	Uses preferences.Statement
}

// maxContext is how long a context should be at most, in characters (13.4.1).
const maxContext = 500

// maxGlob is the greatest length of a glob, in octets; a longer one is left out.
const maxGlob = 1 << 10

// InstructionFiles are the files for agents that may lie at a burrow's root
// (13.2). What they say is handed on as context, and is never an instruction.
func InstructionFiles() []string { return []string{"llms.txt", "AGENTS.md"} }

// agents reads the object. If it, or its permissions, cannot be read, then what
// is denied there is not known, and the document is invalid.
func (r *reader) agents(v jsontext.Value) (a Agents, err error) {
	err = members(v, func(name string, v jsontext.Value) error {
		var odd error
		switch name {
		case "context":
			if a.Context, odd = text(v); utf8.RuneCountInString(a.Context) > maxContext {
				r.warn("agents: a context of more than %d characters", maxContext)
			}
		case "entryPoint":
			a.EntryPoint, odd = text(v)
		case "hints":
			a.Hints, odd = texts(v)
		case "ignore":
			var globs []string
			globs, odd = texts(v)
			for _, g := range globs {
				if !isGlob(g) {
					odd = errors.New("a glob that cannot be used")
					continue
				}
				a.Ignore = append(a.Ignore, g)
			}
		case "permissions":
			return a.Uses.Permissions(v, "manifest.agents.permissions")
		}
		if odd != nil {
			r.warn("agents: %s: %v", name, odd)
		}
		return nil
	})
	for _, line := range a.Uses.Ignored {
		r.warn("%s", line)
	}
	return a, err
}

func isGlob(g string) bool {
	_, err := path.Match(g, "")
	return g != "" && len(g) <= maxGlob && err == nil
}

// Ignores reports whether a path below the burrow's root is one that agents may
// pass over. The text names no dialect: a glob is one of path.Match, where * and
// ? stand for anything but a slash. One without a slash is held against each
// part of the path, any other against its beginning, so that what covers a
// folder covers what is in it.
func (a *Agents) Ignores(name string) bool {
	parts := strings.Split(name, "/")
	for _, g := range a.Ignore {
		g = strings.Trim(strings.TrimSuffix(g, "/**"), "/")
		n := strings.Count(g, "/") + 1
		for i, part := range parts {
			if n == 1 && matches(g, part) {
				return true
			}
			if n > 1 && i+1 == n && matches(g, strings.Join(parts[:n], "/")) {
				return true
			}
		}
	}
	return false
}

func matches(glob, name string) bool {
	ok, err := path.Match(glob, name)
	return ok && err == nil
}

// A Repo says where a project's usual files are, as paths below the root
// (13.3.2); empty where one is not named.
type Repo struct {
	Readme, License, Contributing, Changelog, Security string
	CodeOfConduct, Authors                             string
}

func (p *Repo) members() []repoMember {
	return []repoMember{
		{"authors", &p.Authors, []string{"AUTHORS.md", "CONTRIBUTORS.md"}},
		{"changelog", &p.Changelog, []string{"CHANGELOG.md", "HISTORY.md", "NEWS", "NEWS.md"}},
		{"code_of_conduct", &p.CodeOfConduct, []string{"CODE_OF_CONDUCT.md"}},
		{"contributing", &p.Contributing, []string{"CONTRIBUTING.md", "CONTRIBUTING.txt"}},
		{"license", &p.License, []string{"LICENSE.md", "LICENSE.txt", "LICENSE", "COPYING"}},
		{"readme", &p.Readme, []string{"README.md", "README.txt", "README"}},
		{"security", &p.Security, []string{"SECURITY.md", "SECURITY.txt"}},
	}
}

// A repoMember is one of them, with the names that it goes by, best first.
type repoMember struct {
	name  string
	value *string
	names []string
}

// RepoOf finds the usual files among the names of a burrow's root (13.3.1).
func RepoOf(has func(name string) bool) (p Repo) {
	for _, m := range p.members() {
		for _, name := range m.names {
			if *m.value == "" && has(name) {
				*m.value = name
			}
		}
	}
	return p
}

func (r *reader) repo(v jsontext.Value) (p Repo, err error) {
	err = members(v, func(name string, v jsontext.Value) error {
		for _, m := range p.members() {
			if m.name != name {
				continue
			}
			s, err := text(v)
			if err == nil {
				_, err = LocalPath(s)
			}
			if err != nil {
				r.warn("repo: %s: %v", name, err)
				continue
			}
			*m.value = s
		}
		return nil
	})
	return p, err
}
