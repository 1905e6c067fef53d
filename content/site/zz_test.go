//go:build system
package site
import ("testing";"fmt";"context";"slices";"os";"path/filepath")
func TestZ(t *testing.T){
 for _,d:=range []string{"std","book","reference","cargo","clippy","alloc"}{
 d="/root/.rustup/toolchains/stable-x86_64-unknown-linux-gnu/share/doc/rust/html/"+d
 s:=&Site{Dir:d,BaseURL:"https://x.example/"}
 n,diff,moved:=0,0,0
 for p,err:=range s.Pages(context.Background(),nil,nil){ if err!=nil{t.Fatal(err)}; n++; if n>2000{break}
  src,_:=os.ReadFile(filepath.Join(d,p.Location))
  g,w:=extractWords(src),treeWords(t,src,DefaultRules())
  if !slices.Equal(g,w){ a,b:=firstDifference(g,w); slices.Sort(g);slices.Sort(w); if slices.Equal(g,w){moved++} else {diff++; if diff<4{fmt.Println(p.Location,"\n",a,"\n",b)}}}
 }
 fmt.Println(d,n,diff,moved)
 }
}
