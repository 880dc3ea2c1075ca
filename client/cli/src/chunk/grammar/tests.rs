//! Tests that each language is split by functions and classes, and that invalid or hostile files lose no lines.

use super::*;

/// First line, last line and name of each item, in order.
fn found(text: &str, grammar: Grammar) -> Vec<(usize, usize, String)> {
    let items = items(text, grammar).expect("it is parsed");
    let mut found: Vec<_> = items.into_iter().map(|item| (item.first, item.last, item.name)).collect();
    found.sort();
    found
}

fn assert_found(grammar: Grammar, text: &str, expected: &[(usize, usize, &str)]) {
    let expected: Vec<_> = expected.iter().map(|(first, last, name)| (*first, *last, (*name).to_owned())).collect();
    assert_eq!(found(text, grammar), expected);
}

fn windows() -> Windows {
    Windows::new(8, 2).unwrap()
}

#[test]
fn rust_has_types_functions_and_methods_of_impls() {
    let text = "\
//! Docs of the file.

use a::b;

/// Doc.
#[derive(Debug)]
pub struct Foo<T> {
    x: T,
}

impl<T> Foo<T> {
    /// Makes it.
    pub fn new() -> Self { todo!() } // behind
    const X: u8 = 1;
}

impl<T: Debug> fmt::Display for Foo<T> {
    fn fmt(&self) {}
}

trait Bar {
    fn bar(&self);
    fn baz(&self) {}
}

mod inner {
    pub(crate) async fn f() {}
}

cfg_rt! {
    /// In a macro.
    pub fn spawn() {}
    cfg_x! { fn deep() {} }
}

macro_rules! mine { () => {} }
";
    let expected = [
        (5, 9, "Foo"),
        (12, 13, "Foo::new"),
        (18, 18, "<Foo as fmt::Display>::fmt"),
        (21, 24, "Bar"),
        (22, 22, "Bar::bar"),
        (23, 23, "Bar::baz"),
        (27, 27, "inner::f"),
        (31, 32, "spawn"),
        (33, 33, "deep"),
        (36, 36, "mine!"),
    ];
    assert_found(Grammar::Rust, text, &expected);
}

#[test]
fn rust_says_itself_what_only_tests_use() {
    let text = "\
fn f() {}
#[cfg(test)]
mod tests {
    fn helper() {}
}
#[tokio::test]
async fn one() {}
#[cfg(not(test))]
fn g() {}
#[cfg(any(test, feature = \"x\"))]
fn h() {}
";
    let items = items(text, Grammar::Rust).unwrap();
    let tests: Vec<_> = items.iter().filter(|item| item.is_test).map(|item| item.name.as_str()).collect();
    assert_eq!(tests, ["one", "tests::helper"]);
}

#[test]
fn go_has_functions_types_and_methods_by_receiver() {
    let text = "\
package a

// Server serves.
type Server struct {
\tx int
}

// Serve serves.
func (s *Server) Serve() error {
\treturn nil
}

func (Set[K]) Has(k K) bool { return true }
func main() {}
type (
\tA int
\tB int
)
";
    let expected = [(3, 6, "Server"), (8, 11, "(*Server).Serve"), (13, 13, "Set.Has"), (14, 14, "main")];
    assert_found(Grammar::Go, text, &expected);
}

#[test]
fn java_has_classes_in_classes_and_their_methods() {
    let text = "\
package a.b;

/** Doc. */
@Ann
public class Outer<T> {
    private int x;
    /** Makes it. */
    Outer() {}
    static class Inner implements I {
        @Override
        public <U> void method(U u) {}
    }
    enum E { A, B; void f() {} }
    record R(int x) { R {} }
}
interface I { void g(); }
";
    let expected = [
        (3, 15, "Outer"),
        (7, 8, "Outer.Outer"),
        (9, 12, "Outer.Inner"),
        (10, 11, "Outer.Inner.method"),
        (13, 13, "Outer.E"),
        (13, 13, "Outer.E.f"),
        (14, 14, "Outer.R"),
        (14, 14, "Outer.R.R"),
        (16, 16, "I"),
        (16, 16, "I.g"),
    ];
    assert_found(Grammar::Java, text, &expected);
}

#[test]
fn javascript_has_functions_however_they_are_named() {
    let text = "\
'use strict'
/** Doc. */
export function f() {}
export default class A {
  static x = 1
  handler = async () => {}
  get y() { return 1 }
  #z() {}
}
export const g = async (x) => x
const { a, b } = require('x')
const table = {
  a: 1,
  b: 2,
}
exports.h = function () {}
module.exports.i = () => {}
Foo.prototype.bar = function bar() {}
const short = 1
const B = class { m() {} }
";
    let expected = [
        (2, 3, "f"),
        (4, 9, "A"),
        (6, 6, "A.handler"),
        (7, 7, "A.y"),
        (8, 8, "A.#z"),
        (10, 10, "g"),
        (12, 15, "table"),
        (16, 16, "h"),
        (17, 17, "i"),
        (18, 18, "Foo.bar"),
        (20, 20, "B"),
        (20, 20, "B.m"),
    ];
    assert_found(Grammar::JavaScript, text, &expected);
}

#[test]
fn typescript_has_types_namespaces_and_decorated_members() {
    let text = "\
export interface Options { a: string }
export abstract class A<T> {
  @dec()
  method(): void {}
  private f = (x: number): number => x
}
namespace N {
  export function g() {}
}
declare module 'm' {
  export function h(): void
}
export enum E { A }
export type T = {
  a: string
}
declare function k(): void
";
    let expected = [
        (1, 1, "Options"),
        (2, 6, "A"),
        (3, 4, "A.method"),
        (5, 5, "A.f"),
        (8, 8, "N.g"),
        (11, 11, "m.h"),
        (13, 13, "E"),
        (14, 16, "T"),
        (17, 17, "k"),
    ];
    assert_found(Grammar::TypeScript, text, &expected);
    assert_found(Grammar::Tsx, "export const App = () => <div>{x}</div>\n", &[(1, 1, "App")]);
}

#[test]
fn c_has_functions_behind_any_declarator_and_types() {
    let text = "\
#include <a.h>
#ifdef X
/* Doc. */
static const char *f(int x)
{
  return 0;
}
#else
int (*g(void))(int) { return 0; }
#endif
struct point { int x; };
typedef struct { int y; } pair;
typedef unsigned u32;
enum color { RED };
#define MAX(a, b) ((a) > (b) ? (a) : (b))
static int forward(int);
";
    let expected = [(3, 7, "f"), (9, 9, "g"), (11, 11, "point"), (12, 12, "pair"), (14, 14, "color"), (15, 15, "MAX")];
    assert_found(Grammar::C, text, &expected);
}

#[test]
fn cpp_has_namespaces_templates_and_methods_outside_of_their_class() {
    let text = "\
namespace a::b {
namespace {
void hidden() {}
}
// Doc.
template <typename T>
class Box : public Base {
 public:
  explicit Box(int x) : x_(x) {}
  ~Box() = default;
  T& operator[](int i) { return v[i]; }
  operator bool() const { return true; }
};
template <typename T>
void Box<T>::grow() {}
}  // namespace a::b
extern \"C\" {
int c_function(void) { return 0; }
}
";
    let expected = [
        (3, 3, "a::b::hidden"),
        (5, 13, "a::b::Box"),
        (9, 9, "a::b::Box::Box"),
        (10, 10, "a::b::Box::~Box"),
        (11, 11, "a::b::Box::operator[]"),
        (12, 12, "a::b::Box::operator bool"),
        (14, 15, "a::b::Box::grow"),
        (18, 18, "c_function"),
    ];
    assert_found(Grammar::Cpp, text, &expected);
    assert_found(
        Grammar::CHeader,
        "class A {\n public:\n  int f() { return 1; }\n};\n",
        &[(1, 4, "A"), (3, 3, "A::f")],
    );
    assert_found(Grammar::CHeader, "struct a { int class; };\n", &[(1, 1, "a")]);
}

#[test]
fn code_between_items_and_files_that_do_not_parse_are_not_lost() {
    let broken = "fn f() {}\n@@@ ??? {{{\nlet x = = 1;\nimpl impl fn\nfn g() {\n  1\n}\n}}}}\n%%% the end\n";
    let sources = [
        (Grammar::Rust, broken),
        (Grammar::Go, broken),
        (Grammar::C, broken),
        (Grammar::Cpp, broken),
        (Grammar::Java, broken),
        (Grammar::TypeScript, broken),
        (Grammar::Rust, "use a;\nuse b;\nuse c;\nfn f() {}\nstatic X: u8 = 1;\nstatic Y: u8 = 1;\nstatic Z: u8 = 1;\n"),
    ];
    for (grammar, text) in sources {
        let chunks = split(text, grammar, windows()).expect("it is split");
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            assert!(chunks.iter().any(|chunk| chunk.text.contains(line)), "{grammar:?} lost {line:?}");
        }
    }
    assert!(found(broken, Grammar::Rust).iter().any(|(_, _, name)| name == "f"), "what is sound is still found");
}

#[test]
fn a_long_function_is_windows_with_its_name() {
    let text = format!("fn f() {{\n{}}}\n", "    g();\n".repeat(20));
    let chunks = split(&text, Grammar::Rust, windows()).unwrap();
    assert!(chunks.len() > 1 && chunks.iter().all(|chunk| chunk.name.as_deref() == Some("f")), "{chunks:?}");
}

#[test]
fn a_long_class_is_its_members_signatures() {
    let text = format!("class A {{\n{}}}\n", "  void f(\n      int x) {\n    g();\n    h();\n  }\n".repeat(4));
    let chunks = split(&text, Grammar::Java, windows()).unwrap();
    let class = chunks.iter().find(|chunk| chunk.name.as_deref() == Some("A")).expect("the class");
    assert!(class.text.contains("void f(") && !class.text.contains("g();"), "{}", class.text);
}

/// Runs on the small stack of a test thread.
#[test]
fn hostile_nesting_overflows_no_stack_and_ends() {
    const DEPTH: usize = 10_000;
    let nested = |open: &str, close: &str| open.repeat(DEPTH) + &close.repeat(DEPTH);
    let sources = [
        (Grammar::Rust, nested("mod a { ", "}")),
        (Grammar::Rust, nested("a! { ", "}")),
        (Grammar::Rust, nested("(", ")")),
        (Grammar::Cpp, nested("namespace a { ", "}")),
        (Grammar::Cpp, nested("template <class T> ", "")),
        (Grammar::Cpp, format!("int {}f{}() {{}}", "(*".repeat(DEPTH), ")".repeat(DEPTH))),
        (Grammar::C, nested("#if 1\n", "#endif\n")),
        (Grammar::Java, nested("class A { ", "}")),
        (Grammar::TypeScript, nested("namespace a { ", "}")),
        (Grammar::JavaScript, nested("x = class { f = ", "}")),
        (Grammar::Go, nested("func f() { if x { ", "}")),
        (Grammar::JavaScript, nested("[", "")),
    ];
    for (grammar, text) in sources {
        std::thread::Builder::new()
            .stack_size(512 << 10)
            .spawn(move || {
                let names = items(&text, grammar).unwrap_or_default().into_iter().map(|item| item.name.len());
                assert!(names.max().unwrap_or(0) < 2_000, "names of {grammar:?} grow with the nesting");
                split(&text, grammar, windows()).map(|chunks| chunks.len())
            })
            .expect("a thread")
            .join()
            .unwrap_or_else(|_| panic!("{grammar:?} panicked"));
    }
}
