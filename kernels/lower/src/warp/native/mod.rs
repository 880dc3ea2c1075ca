//! Lowers native functions of Warp, whose bodies are snippets of C++. The snippets are those that Warp compiles for the CPU: scalars,
//! references to them, elements of arrays, and the control flow of C. Templates, lambdas, local arrays and strings are unsupported.
//!
//! A snippet is lowered as it is parsed, without a tree. [`Snippet`] holds its tokens and variables.

mod expressions;
mod functions;
mod operands;
mod tokens;

use std::collections::HashMap;

use accelerd_ir::Dtype;
use accelerd_ir::kernel::{Expr, FaultKind, LabelId, LocalId, Stmt};
use accelerd_parser::{Field, Kind};

use crate::error::{ErrorKind, LowerError, Lowered};
use crate::lowerer::Lowerer;
use crate::lowerer::arguments::Parameter;
use crate::source::declarations::{Assigned, FunctionDecl, enclosing_function};
use crate::source::syntax::{Constant, Node};
use crate::types::Type;
use crate::values::scalars;
use crate::values::{Data, Storage, Value};

use operands::{Operand, Place};
use tokens::Token;

/// A snippet that is being lowered.
pub(super) struct Snippet<'s> {
    /// The function that it is the body of.
    node: Node,
    name: &'s str,
    tokens: Vec<Token<'s>>,
    /// The position of the next token.
    at: usize,
    /// Variables by name, the innermost scope last.
    scopes: Vec<HashMap<&'s str, Operand>>,
    returns: Option<Type>,
    /// The block that early returns leave, and where they put their value.
    end: LabelId,
    result: Vec<LocalId>,
    is_left: bool,
    /// True after a return outside branches and loops, after which nothing runs.
    has_ended: bool,
    /// The value of that return.
    last: Option<Data>,
    loops: Vec<Loop>,
    /// Open branches and loops.
    nesting: u32,
}

/// The labels of a loop.
#[derive(Clone, Copy)]
struct Loop {
    end: LabelId,
    /// The block of an iteration, after which the loop has a step.
    iteration: Option<LabelId>,
}

impl<'s> Snippet<'s> {
    fn next(&self) -> Option<Token<'s>> {
        self.tokens.get(self.at).copied()
    }

    fn is_next(&self, text: &str) -> bool {
        self.next().is_some_and(|token| token.text() == text)
    }

    /// Passes the next token if it is a text.
    fn accept(&mut self, text: &str) -> bool {
        let is_next = self.is_next(text);
        self.at += usize::from(is_next);
        is_next
    }

    fn word(&mut self) -> Option<&'s str> {
        let Some(Token::Word(word)) = self.next() else { return None };
        self.at += 1;
        Some(word)
    }

    fn variable(&self, name: &str) -> Option<&Operand> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name))
    }

    fn declare(&mut self, name: &'s str, operand: Operand) {
        self.scopes.last_mut().expect("a scope is open").insert(name, operand);
    }

    /// Returns true if the snippet may change a parameter: its name precedes an assignment, a member or a subscript, or follows `&`.
    fn may_change(&self, name: &str) -> bool {
        let changes = |text: &str| {
            let is_comparison = matches!(text, "==" | "!=" | "<=" | ">=");
            matches!(text, "++" | "--" | "." | "[") || text.ends_with('=') && !is_comparison
        };
        let is_after = |pair: &[Token<'_>]| pair[0].text() == name && changes(pair[1].text());
        let is_before = |pair: &[Token<'_>]| matches!(pair[0].text(), "++" | "--" | "&") && pair[1].text() == name;
        self.tokens.windows(2).any(|pair| is_after(pair) || is_before(pair))
    }
}

impl Lowerer<'_> {
    /// Lowers the snippet of a function in place of its call.
    pub(crate) fn native(
        &mut self,
        function: &FunctionDecl,
        parameters: &[Parameter],
        arguments: Vec<Value>,
    ) -> Lowered<Value> {
        let node = function.node;
        let Some(text) = self.snippet(node) else {
            return Err(refusal(self, node, &function.name, "expected a string constant as the snippet"));
        };
        let text = tokens::cpu_text(&text).map_err(|reason| refusal(self, node, &function.name, &reason))?;
        let tokens = tokens::tokens(&text).map_err(|reason| refusal(self, node, &function.name, &reason))?;
        self.add_work(tokens.len());
        let syntax = self.syntax();
        let returns = syntax.header(node, Field::Returns).next();
        let returns = returns.and_then(|ty| self.environment.data_type(ty, enclosing_function(syntax, node)));
        let types = returns.iter().flat_map(Type::components).collect::<Vec<_>>();
        let mut s = Snippet {
            node,
            name: &function.name,
            tokens,
            at: 0,
            scopes: vec![HashMap::new()],
            result: types.into_iter().map(|dtype| self.emitter.local("result", dtype)).collect(),
            returns,
            end: self.emitter.label(),
            is_left: false,
            has_ended: false,
            last: None,
            loops: vec![],
            nesting: 0,
        };
        self.emitter.open();
        for (parameter, argument) in parameters.iter().zip(arguments) {
            self.native_parameter(&mut s, &parameter.name, argument)?;
        }
        while !s.has_ended && s.next().is_some() {
            self.native_statement(&mut s)?;
        }
        Ok(self.native_result(s))
    }

    /// The text of a function's snippet: a string, or the name of one.
    fn snippet(&self, function: Node) -> Option<String> {
        let syntax = self.syntax();
        let decorator = syntax.children(function, Field::DecoratorList).next()?;
        let is_named = |keyword: &Node| syntax.name(*keyword).as_deref() == Some("snippet");
        let keyword = || syntax.children(decorator, Field::Keywords).find(is_named);
        let argument = syntax.child(decorator, Field::Args);
        let mut value = argument.or_else(|| keyword().and_then(|keyword| syntax.child(keyword, Field::Value)))?;
        if syntax.kind(value) == Kind::Name {
            let scope = enclosing_function(syntax, function);
            let (_, assigned) = self.environment.declarations.assigned(syntax, scope, &syntax.name(value)?)?;
            let Assigned::Once(text) = assigned else { return None };
            value = text;
        }
        match syntax.constant_of(value)? {
            Constant::Str(text) => Some(text),
            _ => None,
        }
    }

    fn native_parameter(&mut self, s: &mut Snippet<'_>, name: &str, argument: Value) -> Lowered<()> {
        let is_changed = s.may_change(name);
        // The tokens have the name as well, if the snippet names the parameter at all.
        let Some(Token::Word(name)) = s.tokens.iter().copied().find(|token| *token == Token::Word(name)) else {
            return Ok(());
        };
        let operand = match argument {
            Value::Data(data) if is_changed => Operand::Place(self.native_variable(name, data)),
            Value::Data(data) => Operand::Value(self.bind(data.without_constant())),
            Value::Array(view) => Operand::Array(view),
            Value::Reference(location) => Operand::Place(Place { location, bits: None }),
            other => return Err(self.native_error(s, format!("unsupported argument {other}"))),
        };
        s.declare(name, operand);
        Ok(())
    }

    /// A new variable that holds a value.
    fn native_variable(&mut self, name: &str, data: Data) -> Place {
        let types = data.ty.components();
        let slots: Vec<_> = types.into_iter().map(|dtype| self.emitter.local(name, dtype)).collect();
        self.store_locals(&slots, data.parts);
        Place { location: Self::whole(data.ty, Storage::Locals(slots)), bits: None }
    }

    /// The value of a lowered snippet.
    fn native_result(&mut self, s: Snippet<'_>) -> Value {
        let mut body = self.emitter.close();
        if s.has_ended && !s.is_left {
            // No early return leads elsewhere.
            self.emitter.splice(body);
            return s.last.map_or(Value::None, Value::Data);
        }
        match (s.last, &s.returns) {
            (Some(data), _) => {
                self.emitter.open();
                self.store_locals(&s.result, data.parts);
                body.append(&mut self.emitter.close());
            }
            (None, Some(_)) => {
                let site = self.emitter.site(self.syntax().site(s.node));
                body.push(Stmt::Fault(FaultKind::InvalidValue, site));
            }
            (None, None) => {}
        }
        self.emitter.emit(Stmt::Block(s.end, body));
        let parts = s.result.into_iter().map(Expr::Local).collect();
        s.returns.map_or(Value::None, |ty| Data::new(ty, parts).into())
    }

    fn native_error(&self, s: &Snippet<'_>, reason: impl AsRef<str>) -> LowerError {
        refusal(self, s.node, s.name, reason.as_ref())
    }

    /// The error of a construct that starts at the next token.
    fn native_unsupported(&self, s: &Snippet<'_>) -> LowerError {
        let found = s.next().map_or("the end", Token::text);
        self.native_error(s, format!("unsupported `{found}`"))
    }

    fn native_expect(&self, s: &mut Snippet<'_>, text: &str) -> Lowered<()> {
        if s.accept(text) {
            return Ok(());
        }
        let found = s.next().map_or("the end", Token::text);
        Err(self.native_error(s, format!("expected `{text}`, got `{found}`")))
    }

    fn native_statement(&mut self, s: &mut Snippet<'_>) -> Lowered<()> {
        self.nested(s.node, |this| match s.next().map_or("", Token::text) {
            ";" => this.native_expect(s, ";"),
            "{" => this.native_block(s),
            "if" => this.native_if(s),
            "while" => this.native_while(s),
            "for" => this.native_for(s),
            "return" => this.native_return(s),
            "break" | "continue" => this.native_jump(s),
            "union" => this.native_union(s),
            _ => {
                if !this.native_declaration(s)? {
                    this.native_expression(s)?;
                }
                this.native_expect(s, ";")
            }
        })
    }

    fn native_block(&mut self, s: &mut Snippet<'_>) -> Lowered<()> {
        self.native_expect(s, "{")?;
        s.scopes.push(HashMap::new());
        while !s.has_ended && !s.accept("}") {
            self.native_statement(s)?;
        }
        s.scopes.pop();
        Ok(())
    }

    /// The statements of a branch, up to one that leaves it.
    fn native_body(&mut self, s: &mut Snippet<'_>) -> Lowered<Vec<Stmt>> {
        s.nesting += 1;
        s.scopes.push(HashMap::new());
        self.emitter.open();
        let lowered = self.native_statement(s);
        let mut body = self.emitter.close();
        s.scopes.pop();
        s.nesting -= 1;
        let leaves = |stmt: &Stmt| matches!(stmt, Stmt::Break(_) | Stmt::Continue(_));
        body.truncate(body.iter().position(leaves).map_or(body.len(), |at| at + 1));
        lowered.map(|()| body)
    }

    /// A condition in parentheses.
    fn native_condition(&mut self, s: &mut Snippet<'_>) -> Lowered<Expr> {
        self.native_expect(s, "(")?;
        let condition = self.native_truth(s)?;
        self.native_expect(s, ")")?;
        Ok(condition)
    }

    fn native_if(&mut self, s: &mut Snippet<'_>) -> Lowered<()> {
        s.at += 1;
        let condition = self.native_condition(s)?;
        let then = self.native_body(s)?;
        let otherwise = if s.accept("else") { self.native_body(s)? } else { vec![] };
        self.emitter.emit(Stmt::If(condition, then, otherwise));
        Ok(())
    }

    fn native_while(&mut self, s: &mut Snippet<'_>) -> Lowered<()> {
        s.at += 1;
        let end = self.emitter.label();
        self.emitter.open();
        let condition = self.native_condition(s)?;
        self.emitter.emit(Stmt::If(scalars::not(condition), vec![Stmt::Break(end)], vec![]));
        let mut stmts = self.emitter.close();
        stmts.extend(self.native_iteration(s, Loop { end, iteration: None })?);
        self.emitter.emit(Stmt::Loop(end, stmts));
        Ok(())
    }

    fn native_iteration(&mut self, s: &mut Snippet<'_>, labels: Loop) -> Lowered<Vec<Stmt>> {
        s.loops.push(labels);
        let body = self.native_body(s)?;
        s.loops.pop();
        Ok(body)
    }

    fn native_for(&mut self, s: &mut Snippet<'_>) -> Lowered<()> {
        s.at += 1;
        self.native_expect(s, "(")?;
        s.scopes.push(HashMap::new());
        if !s.is_next(";") && !self.native_declaration(s)? {
            self.native_expression(s)?;
        }
        self.native_expect(s, ";")?;
        let labels = Loop { end: self.emitter.label(), iteration: Some(self.emitter.label()) };
        self.emitter.open();
        if !s.is_next(";") {
            let condition = self.native_truth(s)?;
            self.emitter.emit(Stmt::If(scalars::not(condition), vec![Stmt::Break(labels.end)], vec![]));
        }
        let mut stmts = self.emitter.close();
        self.native_expect(s, ";")?;
        self.emitter.open();
        if !s.is_next(")") {
            self.native_expression(s)?;
        }
        let step = self.emitter.close();
        self.native_expect(s, ")")?;
        let body = self.native_iteration(s, labels)?;
        stmts.push(Stmt::Block(labels.iteration.expect("given"), body));
        stmts.extend(step);
        self.emitter.emit(Stmt::Loop(labels.end, stmts));
        s.scopes.pop();
        Ok(())
    }

    fn native_jump(&mut self, s: &mut Snippet<'_>) -> Lowered<()> {
        let Some(&labels) = s.loops.last() else { return Err(self.native_unsupported(s)) };
        let is_break = s.word() == Some("break");
        self.emitter.emit(match labels.iteration {
            _ if is_break => Stmt::Break(labels.end),
            Some(iteration) => Stmt::Break(iteration),
            None => Stmt::Continue(labels.end),
        });
        self.native_expect(s, ";")
    }

    fn native_return(&mut self, s: &mut Snippet<'_>) -> Lowered<()> {
        s.at += 1;
        let value = if s.is_next(";") { None } else { Some(self.native_expression(s)?) };
        self.native_expect(s, ";")?;
        let data = match (s.returns.clone(), value) {
            (None, None) => None,
            (Some(ty), Some(value)) => {
                let data = self.native_value(s, value)?;
                Some(self.native_converted(s, data, &ty)?)
            }
            (ty, _) => {
                let expected = ty.map_or("no value".to_owned(), |ty| ty.to_string());
                return Err(self.native_error(s, format!("expected {expected} to be returned, as it is annotated")));
            }
        };
        if s.nesting == 0 {
            s.has_ended = true;
            s.last = data.map(|data| self.bind(data));
            return Ok(());
        }
        if let Some(data) = data {
            self.store_locals(&s.result, data.parts);
        }
        self.emitter.emit(Stmt::Break(s.end));
        s.is_left = true;
        Ok(())
    }

    /// Lowers a declaration of variables; false if there is none at the next token.
    fn native_declaration(&mut self, s: &mut Snippet<'_>) -> Lowered<bool> {
        let Some(ty) = operands::ty(s) else { return Ok(false) };
        loop {
            let is_address = s.accept("*");
            let is_reference = s.accept("&");
            while s.accept("const") || s.accept("__restrict__") {}
            let Some(name) = s.word() else { return Err(self.native_unsupported(s)) };
            if s.is_next("[") {
                return Err(self.native_error(s, format!("unsupported array `{name}`")));
            }
            let initial = if s.accept("=") { Some(self.native_assignment(s)?) } else { None };
            let operand = match (initial, ty) {
                (Some(address @ (Operand::Address(_) | Operand::Pointer(_))), _) if !is_reference => address,
                (Some(place @ Operand::Place(_)), _) if is_reference && !is_address => place,
                (Some(value), ty) if !is_address && !is_reference => {
                    let data = self.native_value(s, value)?;
                    let data = match ty {
                        Some(dtype) => self.native_converted(s, data, &Type::Scalar(dtype))?,
                        None => data,
                    };
                    Operand::Place(self.native_variable(name, data))
                }
                (None, Some(dtype)) if !is_address && !is_reference => {
                    Operand::Place(self.native_variable(name, Data::zero(&Type::Scalar(dtype))))
                }
                _ => return Err(self.native_error(s, format!("unsupported declaration of `{name}`"))),
            };
            s.declare(name, operand);
            if !s.accept(",") {
                return Ok(true);
            }
        }
    }

    /// `union { float f; uint32_t u; } x;`: one variable, whose bits are read as several types.
    fn native_union(&mut self, s: &mut Snippet<'_>) -> Lowered<()> {
        s.at += 1;
        self.native_expect(s, "{")?;
        let mut members: Vec<(&str, Dtype)> = vec![];
        while !s.accept("}") {
            let Some(Some(dtype)) = operands::ty(s) else { return Err(self.native_unsupported(s)) };
            let Some(name) = s.word() else { return Err(self.native_unsupported(s)) };
            self.native_expect(s, ";")?;
            members.push((name, dtype));
        }
        let Some(name) = s.word() else { return Err(self.native_unsupported(s)) };
        let first = members.first().map(|(_, dtype)| *dtype);
        let Some(first) = first.filter(|first| members.iter().all(|(_, dtype)| dtype.size() == first.size())) else {
            return Err(self.native_error(s, format!("expected members of one size in union `{name}`")));
        };
        let place = self.native_variable(name, Data::zero(&Type::Scalar(first)));
        if s.accept("=") {
            self.native_expect(s, "{")?;
            let value = self.native_assignment(s)?;
            self.native_assign(s, &place, value)?;
            self.native_expect(s, "}")?;
        }
        let member = |(name, dtype): (&str, Dtype)| (name.to_owned(), dtype);
        s.declare(name, Operand::Union(place, members.into_iter().map(member).collect()));
        self.native_expect(s, ";")
    }
}

fn refusal(lowerer: &Lowerer<'_>, node: Node, name: &str, reason: &str) -> LowerError {
    lowerer.error(node, ErrorKind::UnsupportedExpression, format!("the native snippet of `{name}`: {reason}"))
}
