//! The kernel under construction: statements, local variables, labels and places, within a size budget.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use accelerd_ir::Dtype;
use accelerd_ir::kernel::{
    Expr, FaultKind, FaultSite, Kernel, LabelId, Local, LocalId, Param, ParamId, ParamType, Place, Site, SiteId, Stmt,
};
use accelerd_ir::scalar::{BinaryOp, UnaryOp};

/// The most nodes of statements and expressions of a kernel.
const MAX_SIZE: usize = 200_000;

/// Collects a kernel.
#[derive(Default)]
pub(crate) struct Emitter {
    pub(crate) params: Vec<Param>,
    param_names: HashSet<String>,
    locals: Vec<Local>,
    sites: Vec<FaultSite>,
    /// The call of the source that functions of the library are inlined for. Faults in them are reported there.
    pub(crate) library_call: Option<Site>,
    site_ids: HashMap<FaultSite, SiteId>,
    labels: u32,
    /// The body, and the blocks that are open in it.
    blocks: Vec<Vec<Stmt>>,
    size: usize,
    pub(crate) grid_dims: u8,
    /// Integer variables to which no negative number is assigned.
    non_negative: HashSet<LocalId>,
    /// Arrays whose indices come from arrays of indices, where negative ones do not count from the end.
    selected: HashSet<ParamId>,
}

impl Emitter {
    pub(crate) fn new() -> Self {
        Self { blocks: vec![vec![]], ..Self::default() }
    }

    /// Appends a statement.
    pub(crate) fn emit(&mut self, stmt: Stmt) {
        self.size += own_size(&stmt);
        self.blocks.last_mut().expect("the body is always open").push(stmt);
    }

    /// Returns true if the kernel is larger than allowed.
    pub(crate) fn is_too_large(&self) -> bool {
        self.size > MAX_SIZE
    }

    /// Opens a block; `close` returns its statements.
    pub(crate) fn open(&mut self) {
        self.blocks.push(vec![]);
    }

    pub(crate) fn close(&mut self) -> Vec<Stmt> {
        self.blocks.pop().expect("a block was opened")
    }

    /// Appends the statements of a closed block.
    pub(crate) fn splice(&mut self, stmts: Vec<Stmt>) {
        self.blocks.last_mut().expect("the body is always open").extend(stmts);
    }

    pub(crate) fn local(&mut self, name: &str, dtype: Dtype) -> LocalId {
        self.size += 1;
        self.locals.push(Local { name: identifier(name), dtype });
        LocalId(to_u32(self.locals.len() - 1))
    }

    /// A new variable of the type of another.
    pub(crate) fn copy_of(&mut self, local: LocalId) -> LocalId {
        let dtype = self.locals[local.0 as usize].dtype;
        self.local("t", dtype)
    }

    /// States that no negative number is assigned to an integer variable.
    pub(crate) fn mark_non_negative(&mut self, local: LocalId) {
        self.non_negative.insert(local);
    }

    /// Returns true if an integer of at least 32 bits is known not to be negative, overflow left aside.
    pub(crate) fn is_non_negative(&self, expr: &Expr) -> bool {
        let is = |expr: &Expr| self.is_non_negative(expr);
        match expr {
            Expr::ThreadId(_) | Expr::Extent(..) => true,
            Expr::Literal(literal) => !literal.dtype().is_float() && literal.cast(Dtype::I64).as_i64() >= 0,
            Expr::Local(local) => self.non_negative.contains(local),
            Expr::Cast(to, value) => to.is_integer() && to.size() >= 4 && is(value),
            Expr::Select(_, then, otherwise) => is(then) && is(otherwise),
            Expr::Binary(BinaryOp::Add | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Min, a, b) => is(a) && is(b),
            Expr::Binary(BinaryOp::Max | BinaryOp::And, a, b) => is(a) || is(b),
            Expr::Binary(BinaryOp::Rem | BinaryOp::Shr, a, _) => is(a),
            Expr::Binary(..) | Expr::Unary(..) | Expr::Bitcast(..) | Expr::Param(..) => false,
        }
    }

    /// A new variable that holds a value.
    pub(crate) fn temp(&mut self, dtype: Dtype, value: Expr) -> Expr {
        let local = self.local("t", dtype);
        if dtype.is_integer() && dtype.size() >= 4 && self.is_non_negative(&value) {
            self.mark_non_negative(local);
        }
        self.emit(Stmt::Assign(local, value));
        Expr::Local(local)
    }

    /// A new variable that holds a value, which wraps: non-negative operands do not make it non-negative.
    pub(crate) fn temp_of_any_sign(&mut self, dtype: Dtype, value: Expr) -> Expr {
        let local = self.local("t", dtype);
        self.emit(Stmt::Assign(local, value));
        Expr::Local(local)
    }

    /// The value, or a variable that holds it if it costs anything to evaluate again.
    pub(crate) fn bind(&mut self, dtype: Dtype, value: Expr) -> Expr {
        if is_cheap(&value) { value } else { self.temp(dtype, value) }
    }

    /// A new variable that holds a value, unless it is constant.
    pub(crate) fn temp_unless_literal(&mut self, dtype: Dtype, value: Expr) -> Expr {
        if matches!(value, Expr::Literal(_)) { value } else { self.temp(dtype, value) }
    }

    pub(crate) fn label(&mut self) -> LabelId {
        self.labels += 1;
        LabelId(self.labels - 1)
    }

    pub(crate) fn site(&mut self, site: Site) -> SiteId {
        self.fault_site(FaultSite { site, unassigned: None, from_end: 0 })
    }

    /// The site of accesses to an array at indices.
    pub(crate) fn access_site(&mut self, site: Site, array: ParamId, indices: &[Expr]) -> SiteId {
        let is_wrapped = |index: &Expr| !self.selected.contains(&array) && !self.is_non_negative(index);
        let from_end = indices.iter().rev().fold(0, |bits, index| bits << 1 | u8::from(is_wrapped(index)));
        self.fault_site(FaultSite { site, unassigned: None, from_end })
    }

    fn fault_site(&mut self, site: FaultSite) -> SiteId {
        let site = FaultSite { site: self.library_call.unwrap_or(site.site), ..site };
        let next = SiteId(to_u32(self.sites.len()));
        let id = *self.site_ids.entry(site.clone()).or_insert(next);
        if id == next {
            self.sites.push(site);
        }
        id
    }

    /// States that the indices of an array come from arrays of indices.
    pub(crate) fn mark_selected(&mut self, array: ParamId) {
        self.selected.insert(array);
    }

    /// Faults if a condition is true.
    pub(crate) fn fault_if(&mut self, condition: Expr, kind: FaultKind, site: Site) {
        let site = self.site(site);
        self.emit(Stmt::If(condition, vec![Stmt::Fault(kind, site)], vec![]));
    }

    /// Faults if the flag of a variable is not set: it is read before it is assigned.
    pub(crate) fn fault_unless_assigned(&mut self, flag: LocalId, name: &str, site: Site) {
        let site = self.fault_site(FaultSite { site, unassigned: Some(name.to_owned()), from_end: 0 });
        let is_unassigned = Expr::Unary(UnaryOp::Not, Box::new(Expr::Local(flag)));
        self.emit(Stmt::If(is_unassigned, vec![Stmt::Fault(FaultKind::InvalidValue, site)], vec![]));
    }

    /// Adds a parameter, whose name becomes an identifier that no other has.
    pub(crate) fn param(&mut self, name: &str, ty: ParamType) -> ParamId {
        let mut name = identifier(name);
        while !self.param_names.insert(name.clone()) {
            name.push('_');
        }
        self.size += 1;
        self.params.push(Param { name, ty });
        ParamId(to_u32(self.params.len() - 1))
    }

    /// The kernel, without variables that nothing reads.
    pub(crate) fn finish(mut self, name: &str) -> Kernel {
        let body = self.blocks.pop().expect("the body is always open");
        let mut kernel = Kernel {
            name: identifier(name),
            grid_dims: self.grid_dims.max(1),
            params: self.params,
            locals: self.locals,
            body,
            sites: self.sites,
        };
        remove_unread(&mut kernel);
        kernel
    }
}

/// Removes assignments to variables that nothing reads, until there are none, and the variables that no statement names.
fn remove_unread(kernel: &mut Kernel) {
    for _ in 0..4 {
        let mut read = vec![false; kernel.locals.len()];
        visit(&kernel.body, &mut |expr| {
            if let Expr::Local(local) = expr {
                read[local.0 as usize] = true;
            }
        });
        if !remove_assignments(&mut kernel.body, &read) {
            break;
        }
    }
    let mut names = vec![false; kernel.locals.len()];
    renumber(&mut kernel.body, &mut |local| names[local.0 as usize] = true);
    let mut next = 0;
    let places: Vec<_> = names
        .iter()
        .map(|used| {
            next += u32::from(*used);
            next.wrapping_sub(1)
        })
        .collect();
    renumber(&mut kernel.body, &mut |local| *local = LocalId(places[local.0 as usize]));
    let mut index = 0;
    kernel.locals.retain(|_| {
        index += 1;
        names[index - 1]
    });
}

fn remove_assignments(body: &mut Vec<Stmt>, read: &[bool]) -> bool {
    let before = body.len();
    body.retain(|stmt| !matches!(stmt, Stmt::Assign(local, _) if !read[local.0 as usize]));
    let mut changed = body.len() != before;
    for stmt in body {
        match stmt {
            Stmt::If(_, then, otherwise) => {
                changed |= remove_assignments(then, read);
                changed |= remove_assignments(otherwise, read);
            }
            Stmt::Loop(_, body) | Stmt::For { body, .. } | Stmt::Block(_, body) => {
                changed |= remove_assignments(body, read);
            }
            Stmt::Atomic { previous, .. } => *previous = previous.filter(|local| read[local.0 as usize]),
            Stmt::Assign(..)
            | Stmt::Load(..)
            | Stmt::Store(..)
            | Stmt::Break(_)
            | Stmt::Continue(_)
            | Stmt::Return
            | Stmt::Fault(..) => {}
        }
    }
    changed
}

/// Calls a function for every expression, operands included.
fn visit(body: &[Stmt], f: &mut impl FnMut(&Expr)) {
    for stmt in body {
        for expr in own_expressions(stmt) {
            visit_expr(expr, f);
        }
        match stmt {
            Stmt::If(_, then, otherwise) => {
                visit(then, f);
                visit(otherwise, f);
            }
            Stmt::Loop(_, body) | Stmt::For { body, .. } | Stmt::Block(_, body) => visit(body, f),
            Stmt::Assign(..)
            | Stmt::Load(..)
            | Stmt::Store(..)
            | Stmt::Atomic { .. }
            | Stmt::Break(_)
            | Stmt::Continue(_)
            | Stmt::Return
            | Stmt::Fault(..) => {}
        }
    }
}

fn visit_expr(expr: &Expr, f: &mut impl FnMut(&Expr)) {
    f(expr);
    match expr {
        Expr::Unary(_, a) | Expr::Cast(_, a) | Expr::Bitcast(_, a) => visit_expr(a, f),
        Expr::Binary(_, a, b) => {
            visit_expr(a, f);
            visit_expr(b, f);
        }
        Expr::Select(c, a, b) => {
            visit_expr(c, f);
            visit_expr(a, f);
            visit_expr(b, f);
        }
        Expr::Literal(_) | Expr::Local(_) | Expr::Param(..) | Expr::Extent(..) | Expr::ThreadId(_) => {}
    }
}

/// The expressions that stand in a statement itself.
fn own_expressions(stmt: &Stmt) -> Vec<&Expr> {
    fn place(target: &Place) -> impl Iterator<Item = &Expr> {
        target.indices.iter()
    }
    match stmt {
        Stmt::Assign(_, value) | Stmt::If(value, ..) => vec![value],
        Stmt::Load(_, of) => place(of).collect(),
        Stmt::Store(of, value) => place(of).chain([value]).collect(),
        Stmt::Atomic { place: of, operand, expected, .. } => place(of).chain([operand]).chain(expected).collect(),
        Stmt::For { start, end, step, .. } => vec![start, end, step],
        Stmt::Loop(..) | Stmt::Block(..) | Stmt::Break(_) | Stmt::Continue(_) | Stmt::Return | Stmt::Fault(..) => {
            vec![]
        }
    }
}

/// Calls a function for every place where a local variable is named.
fn renumber(body: &mut [Stmt], f: &mut impl FnMut(&mut LocalId)) {
    for stmt in body {
        let place = |target: &mut Place, f: &mut _| target.indices.iter_mut().for_each(|index| renumber_expr(index, f));
        match stmt {
            Stmt::Assign(local, value) => {
                f(local);
                renumber_expr(value, f);
            }
            Stmt::Load(local, target) => {
                f(local);
                place(target, f);
            }
            Stmt::Store(target, value) => {
                place(target, f);
                renumber_expr(value, f);
            }
            Stmt::Atomic { place: target, operand, expected, previous, .. } => {
                place(target, f);
                renumber_expr(operand, f);
                if let Some(expected) = expected {
                    renumber_expr(expected, f);
                }
                previous.iter_mut().for_each(&mut *f);
            }
            Stmt::If(condition, then, otherwise) => {
                renumber_expr(condition, f);
                renumber(then, f);
                renumber(otherwise, f);
            }
            Stmt::For { counter, start, end, step, body, .. } => {
                f(counter);
                for expr in [start, end, step] {
                    renumber_expr(expr, f);
                }
                renumber(body, f);
            }
            Stmt::Loop(_, body) | Stmt::Block(_, body) => renumber(body, f),
            Stmt::Break(_) | Stmt::Continue(_) | Stmt::Return | Stmt::Fault(..) => {}
        }
    }
}

fn renumber_expr(expr: &mut Expr, f: &mut impl FnMut(&mut LocalId)) {
    match expr {
        Expr::Local(local) => f(local),
        Expr::Unary(_, a) | Expr::Cast(_, a) | Expr::Bitcast(_, a) => renumber_expr(a, f),
        Expr::Binary(_, a, b) => {
            renumber_expr(a, f);
            renumber_expr(b, f);
        }
        Expr::Select(c, a, b) => {
            renumber_expr(c, f);
            renumber_expr(a, f);
            renumber_expr(b, f);
        }
        Expr::Literal(_) | Expr::Param(..) | Expr::Extent(..) | Expr::ThreadId(_) => {}
    }
}

/// Returns true if an expression may be repeated.
pub(crate) fn is_cheap(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(_) | Expr::Local(_) | Expr::Param(..) | Expr::Extent(..) | Expr::ThreadId(_) => true,
        Expr::Unary(..) | Expr::Binary(..) | Expr::Select(..) | Expr::Cast(..) | Expr::Bitcast(..) => false,
    }
}

/// Returns true if an expression reads one of some variables.
pub(crate) fn reads(expr: &Expr, locals: &[LocalId]) -> bool {
    let mut found = false;
    visit_expr(expr, &mut |expr| found |= matches!(expr, Expr::Local(local) if locals.contains(local)));
    found
}

/// Returns true if operands are nested in an expression more than `limit` deep.
pub(crate) fn is_deeper(expr: &Expr, limit: u32) -> bool {
    let Some(below) = limit.checked_sub(1) else { return true };
    match expr {
        Expr::Literal(_) | Expr::Local(_) | Expr::Param(..) | Expr::Extent(..) | Expr::ThreadId(_) => false,
        Expr::Unary(_, a) | Expr::Cast(_, a) | Expr::Bitcast(_, a) => is_deeper(a, below),
        Expr::Binary(_, a, b) => is_deeper(a, below) || is_deeper(b, below),
        Expr::Select(condition, a, b) => is_deeper(condition, below) || is_deeper(a, below) || is_deeper(b, below),
    }
}

/// Nodes of a statement without the bodies in it, whose statements were counted when they were emitted.
fn own_size(stmt: &Stmt) -> usize {
    let mut size = 1;
    for expr in own_expressions(stmt) {
        visit_expr(expr, &mut |_| size += 1);
    }
    size
}

/// A name as an identifier of C: ASCII, and no reserved word.
pub(crate) fn identifier(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() || c == '_' {
            text.push(c);
        } else {
            write!(text, "u{:x}", u32::from(c)).expect("a string grows");
        }
    }
    let starts_with_digit = text.chars().next().is_none_or(|c| c.is_ascii_digit());
    if starts_with_digit || text.starts_with("__") {
        text.insert(0, 'v');
    }
    if RESERVED.contains(&text.as_str()) {
        text.push('_');
    }
    text
}

/// Words of C++ that are no identifiers, and names that its headers define as macros.
const RESERVED: [&str; 92] = [
    "alignas",
    "alignof",
    "and",
    "and_eq",
    "asm",
    "auto",
    "bitand",
    "bitor",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "char16_t",
    "char32_t",
    "char8_t",
    "class",
    "compl",
    "concept",
    "const",
    "const_cast",
    "consteval",
    "constexpr",
    "constinit",
    "continue",
    "co_await",
    "co_return",
    "co_yield",
    "decltype",
    "default",
    "delete",
    "do",
    "double",
    "dynamic_cast",
    "else",
    "enum",
    "explicit",
    "export",
    "extern",
    "false",
    "float",
    "for",
    "friend",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "main",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "not_eq",
    "nullptr",
    "operator",
    "or",
    "or_eq",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "requires",
    "restrict",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "static_assert",
    "static_cast",
    "struct",
    "switch",
    "template",
    "this",
    "thread_local",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "wchar_t",
    "while",
];

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).expect("the size of a kernel is limited")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_those_of_c() {
        for (name, expected) in [("x", "x"), ("float", "float_"), ("größe", "gruf6udfe"), ("__a", "v__a")] {
            assert_eq!(identifier(name), expected);
        }
    }
}
