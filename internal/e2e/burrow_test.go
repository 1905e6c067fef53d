package e2e

import (
	"errors"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/rogpeppe/go-internal/testscript"
)

// commitAll FOLDER commits all that is in a folder, and makes it a repository if
// it is none.
func commitAll(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: commitall FOLDER")
	}
	dir := ts.MkAbs(args[0])
	repo, err := git.PlainOpen(dir)
	if errors.Is(err, git.ErrRepositoryNotExists) {
		repo, err = git.PlainInitWithOptions(dir, &git.PlainInitOptions{
			InitOptions: git.InitOptions{DefaultBranch: plumbing.Main},
		})
	}
	ts.Check(err)
	w, err := repo.Worktree()
	ts.Check(err)
	ts.Check(w.AddWithOptions(&git.AddOptions{All: true}))
	who := &object.Signature{Name: "A. Writer", Email: "writer@docs.test", When: time.Now()}
	id, err := w.Commit("Change the pages", &git.CommitOptions{Author: who})
	ts.Check(err)
	ts.Setenv("COMMIT", id.String())
}
