//! Assignment targets, and the contexts `Store` and `Del`.

use super::{Checker, Result};
use crate::columns::{Context, Field, Kind, VALUE_ELLIPSIS};

impl Checker<'_> {
    /// Sets the context of a target and its elements.
    pub(super) fn target(&mut self, row: usize) -> Result<()> {
        let parent = self.kind(self.parent(row));
        match parent {
            Kind::Delete => self.assign(row, Context::Del, parent),
            Kind::NamedExpr => Ok(()),
            Kind::AugAssign | Kind::AnnAssign => self.single_target(row, parent),
            _ => self.assign(row, Context::Store, parent),
        }
    }

    fn single_target(&mut self, row: usize, parent: Kind) -> Result<()> {
        if matches!(self.kind(row), Kind::Name | Kind::Attribute | Kind::Subscript) {
            self.set_context(row, Context::Store);
            return Ok(());
        }
        let what = expr_name(self.kind(row), self.columns.aux[row]);
        Err(self.error(
            row,
            match (parent, self.kind(row)) {
                (Kind::AugAssign, _) => format!("'{what}' is an illegal expression for augmented assignment"),
                (_, Kind::List | Kind::Tuple) => format!("only single target (not {what}) can be annotated"),
                _ => "illegal target for annotation".to_owned(),
            },
        ))
    }

    fn assign(&mut self, row: usize, context: Context, parent: Kind) -> Result<()> {
        self.set_target(row, context, parent)?;
        if matches!(self.kind(row), Kind::Name | Kind::Attribute | Kind::Subscript) {
            return Ok(());
        }
        for inner in self.subtree(row) {
            let outer = self.parent(inner);
            let field = self.columns.fields[inner];
            let part = matches!(
                (field, self.kind(outer)),
                (Field::Elts, Kind::Tuple | Kind::List) | (Field::Value, Kind::Starred)
            );
            if part && self.columns.aux[outer] == context as u32 {
                self.set_target(inner, context, parent)?;
            }
        }
        Ok(())
    }

    fn set_target(&mut self, row: usize, context: Context, parent: Kind) -> Result<()> {
        match (self.kind(row), context) {
            (Kind::Name | Kind::Attribute | Kind::Subscript | Kind::Tuple | Kind::List, _)
            | (Kind::Starred, Context::Load | Context::Store) => {
                self.set_context(row, context);
                Ok(())
            }
            (kind, Context::Load | Context::Store | Context::Del) => {
                let what = expr_name(kind, self.columns.aux[row]);
                let verb = if context == Context::Del { "delete" } else { "assign to" };
                let keyword = kind == Kind::Constant && self.columns.aux[row] > VALUE_ELLIPSIS;
                let loose = matches!(kind, Kind::Compare | Kind::BoolOp | Kind::IfExp | Kind::Lambda);
                let whole = parent == Kind::Assign && self.columns.fields[row] == Field::Targets;
                let hint = if whole && !keyword && !loose { " here. Maybe you meant '==' instead of '='?" } else { "" };
                Err(self.error(row, format!("cannot {verb} {what}{hint}")))
            }
        }
    }

    fn set_context(&mut self, row: usize, context: Context) {
        self.columns.aux[row] |= context as u32;
    }
}

/// `_PyPegen_get_expr_name`: the name of an expression in messages.
fn expr_name(kind: Kind, aux: u32) -> &'static str {
    match kind {
        Kind::Attribute => "attribute",
        Kind::Subscript => "subscript",
        Kind::Starred => "starred",
        Kind::Name => "name",
        Kind::List => "list",
        Kind::Tuple => "tuple",
        Kind::Lambda => "lambda",
        Kind::Call => "function call",
        Kind::GeneratorExp => "generator expression",
        Kind::Yield | Kind::YieldFrom => "yield expression",
        Kind::Await => "await expression",
        Kind::ListComp => "list comprehension",
        Kind::SetComp => "set comprehension",
        Kind::DictComp => "dict comprehension",
        Kind::Dict => "dict literal",
        Kind::Set => "set display",
        Kind::JoinedStr | Kind::FormattedValue => "f-string expression",
        Kind::TemplateStr | Kind::Interpolation => "t-string expression",
        Kind::Compare => "comparison",
        Kind::IfExp => "conditional expression",
        Kind::NamedExpr => "named expression",
        Kind::Constant => match aux {
            crate::columns::VALUE_NONE => "None",
            crate::columns::VALUE_FALSE => "False",
            crate::columns::VALUE_TRUE => "True",
            crate::columns::VALUE_ELLIPSIS => "ellipsis",
            _ => "literal",
        },
        _ => "expression",
    }
}
