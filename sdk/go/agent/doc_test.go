package agent

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"strings"
	"testing"
)

// TestEverythingExportedIsExplained looks at every declaration of the package: its comment begins with its name.
func TestEverythingExportedIsExplained(t *testing.T) {
	packages, err := parser.ParseDir(token.NewFileSet(), ".", func(file fs.FileInfo) bool {
		return !strings.HasSuffix(file.Name(), "_test.go")
	}, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	check := func(name *ast.Ident, comment *ast.CommentGroup) {
		if name.IsExported() && !strings.HasPrefix(comment.Text(), name.Name+" ") {
			t.Errorf("%s: %q", name.Name, comment.Text())
		}
	}
	for _, file := range packages["agent"].Files {
		for _, one := range file.Decls {
			switch declared := one.(type) {
			case *ast.FuncDecl:
				if isReachable(declared) {
					check(declared.Name, declared.Doc)
				}
			case *ast.GenDecl:
				for _, spec := range declared.Specs {
					switch found := spec.(type) {
					case *ast.TypeSpec:
						check(found.Name, declared.Doc)
					case *ast.ValueSpec:
						check(found.Names[0], firstComment(found.Doc, declared.Doc))
					}
				}
			}
		}
	}
}

// isReachable says whether a function is none of a type that nobody outside can name.
func isReachable(declared *ast.FuncDecl) bool {
	if declared.Recv == nil {
		return true
	}
	of := declared.Recv.List[0].Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	name, ok := of.(*ast.Ident)
	return ok && name.IsExported()
}

func firstComment(comments ...*ast.CommentGroup) *ast.CommentGroup {
	for _, one := range comments {
		if one != nil {
			return one
		}
	}
	return nil
}
