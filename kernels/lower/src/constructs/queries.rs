//! Loops over the results of queries of geometry.

use accelerd_ir::Dtype;
use accelerd_ir::kernel::{Expr, Stmt};
use accelerd_parser::{Field, Kind};

use crate::error::{ErrorKind, Lowered};
use crate::lowerer::{LoopLabels, Lowerer};
use crate::source::syntax::Node;
use crate::types::Type;
use crate::values::scalars;
use crate::values::{Data, Storage, Value};
use crate::warp::library;

impl Lowerer<'_> {
    /// Lowers `for index in query`. Returns false for another iterable.
    pub(crate) fn query_loop(&mut self, node: Node, name: &str, iterable: Node) -> Lowered<bool> {
        if self.is_python() || !self.may_be_query(iterable) {
            return Ok(false);
        }
        let query = self.expression(iterable)?;
        let next = match &query {
            Value::Data(Data { ty: Type::Struct(structure), .. }) => library::advance(&structure.name),
            _ => None,
        };
        let (Some(next), Value::Data(query)) = (next, query) else {
            let message = "expected `range(...)` or a query as the iterable";
            return Err(self.error(iterable, ErrorKind::UnsupportedStatement, message));
        };
        let slots = self.slots("query", &query.ty);
        self.store_locals(&slots, query.parts);
        let query = Self::whole(query.ty, Storage::Locals(slots));
        let index = self.emitter.local(name, Dtype::I32);
        let end = self.emitter.label();
        self.forget_assigned(&self.assigned_names(node));
        self.rebind_loop_variable(node, name, Dtype::I32)?;
        let before = self.knowledge();
        self.emitter.open();
        let functions = self.environment.declarations.functions_named(self.syntax(), None, next);
        let arguments = [query, Self::whole(Type::I32, Storage::Locals(vec![index]))].map(Value::Reference);
        let is_found = self.call_values(node, next, &functions, &arguments)?;
        let (_, is_found) = self.scalar_in(node, &is_found)?;
        self.emitter.emit(Stmt::If(scalars::not(is_found), vec![Stmt::Break(end)], vec![]));
        let target = self.syntax().required(node, Field::Target);
        self.assign_variable(target, name, Data::scalar(Dtype::I32, Expr::Local(index)).into())?;
        self.loop_body(node, LoopLabels { end, next: None })?;
        let body = self.emitter.close();
        self.emitter.emit(Stmt::Loop(end, body));
        self.restore(&before);
        Ok(true)
    }

    /// Returns true for a name and a call of a function of Warp.
    fn may_be_query(&self, node: Node) -> bool {
        let syntax = self.syntax();
        match syntax.kind(node) {
            Kind::Name => true,
            Kind::Call => syntax.kind(syntax.required(node, Field::Func)) == Kind::Attribute,
            _ => false,
        }
    }
}
