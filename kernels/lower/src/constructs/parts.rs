//! Lowers attributes and subscripts: components of values, elements and views of arrays, as values and as targets.

use accelerd_ir::Dtype;
use accelerd_ir::kernel::{Expr, Place, Stmt};
use accelerd_parser::{Field, Kind};

use crate::error::{ErrorKind, Lowered};
use crate::lowerer::{Lowerer, VariableKind};
use crate::source::environment::{Number, shorten};
use crate::source::syntax::Node;
use crate::types::Type;
use crate::values::constants::adapted;
use crate::values::scalars;
use crate::values::{Data, Location, Storage, Value, View};

/// The part of a value that an attribute or subscript refers to.
pub(crate) enum Part {
    Value(Value),
    Location(Location),
}

/// Components of a value that an attribute or subscript selects.
struct Selection {
    ty: Type,
    choices: Vec<Vec<u32>>,
    index: Option<Expr>,
}

/// An index of a component.
enum Index {
    /// Known, with negative ones counted from the end.
    Constant(u32),
    Dynamic(Expr),
    /// The indices of a slice.
    Slice(Vec<u32>),
}

/// The choices among components in one expression, which nest.
const MAX_CHAIN: usize = 64;

/// The dimensions that an array may have.
const MAX_DIMS: i128 = 4;

impl Lowerer<'_> {
    /// The value of an attribute or subscript.
    pub(crate) fn part(&mut self, node: Node) -> Lowered<Value> {
        let value = self.unread_part(node)?;
        Ok(self.loaded(value))
    }

    /// The same; an element of an array is not read yet.
    pub(crate) fn unread_part(&mut self, node: Node) -> Lowered<Value> {
        if self.syntax().kind(node) == Kind::Attribute
            && let Some(number) = self.outer_number(node)
        {
            return Ok(self.number(number).into());
        }
        if let Some(function) = self.outer_callable(node) {
            return Ok(Value::Function(function));
        }
        match self.resolve(node)? {
            Part::Value(value) => Ok(value),
            Part::Location(location) if matches!(location.storage, Storage::Element { .. }) => {
                Ok(Value::Reference(location))
            }
            Part::Location(location) => Ok(self.read(location).into()),
        }
    }

    /// The location of a target.
    pub(crate) fn target(&mut self, node: Node) -> Lowered<Location> {
        match self.resolve(node)? {
            Part::Location(Location { storage: Storage::Parts(_), .. }) | Part::Value(_) => {
                let message = format!("cannot assign to `{}`", shorten(&self.syntax().text(node)));
                Err(self.error(node, ErrorKind::TypeMismatch, message))
            }
            Part::Location(location) => Ok(location),
        }
    }

    fn resolve(&mut self, node: Node) -> Lowered<Part> {
        self.nested(node, |this| match this.syntax().kind(node) {
            Kind::Name => this.resolve_name(node),
            Kind::Attribute => this.resolve_attribute(node),
            Kind::Subscript => this.resolve_subscript(node),
            _ => this.expression(node).map(part_of),
        })
    }

    pub(crate) fn resolve_name(&mut self, node: Node) -> Lowered<Part> {
        let name = self.syntax().name(node).unwrap_or_default();
        match self.variable(node, &name) {
            Some(VariableKind::Data(ty, slots)) => {
                // A component may be assigned.
                if let Some(variable) = self.frame_mut().variables.get_mut(&name) {
                    variable.constant = None;
                }
                Ok(Part::Location(Self::whole(ty, Storage::Locals(slots))))
            }
            Some(VariableKind::Reference(location)) => Ok(Part::Location(location)),
            Some(kind) => Ok(part_of(Self::value_of(&kind))),
            None => self.expression(node).map(part_of),
        }
    }

    fn resolve_attribute(&mut self, node: Node) -> Lowered<Part> {
        let syntax = self.syntax();
        let base = syntax.required(node, Field::Value);
        let name = syntax.name(node).unwrap_or_default();
        if let Some((path, kind)) = self.field(node) {
            let kind = kind.clone();
            self.check_assigned(node, &path[0]);
            return Ok(match kind {
                VariableKind::Data(ty, slots) => Part::Location(Self::whole(ty, Storage::Locals(slots))),
                kind => part_of(Self::value_of(&kind)),
            });
        }
        let is_length = name == "length" && !self.is_python();
        if is_length && let Some(size) = self.type_expression(base)?.and_then(|ty| ty.size()) {
            return Ok(Part::Value(self.number(size).into()));
        }
        if self.path(node).is_some() {
            let message = format!("unsupported value `{}`", shorten(&syntax.text(node)));
            return Err(self.error(node, ErrorKind::UnknownAttribute, message));
        }
        match self.resolve(base)? {
            Part::Location(location) => {
                if let Some(selection) = attribute(&location.ty, &name) {
                    return Ok(Part::Location(narrow(location, &selection)));
                }
                if let Some(size) = location.ty.size().filter(|_| is_length) {
                    return Ok(Part::Value(self.number(size).into()));
                }
                let message = format!("{} has no attribute `{name}`", location.ty);
                Err(self.error(node, ErrorKind::UnknownAttribute, message))
            }
            Part::Value(Value::Array(view)) => {
                let view = self.present(base, view);
                self.array_attribute(node, &view, &name).map(Part::Value)
            }
            Part::Value(Value::Unbound(_, form, flag)) if name == "shape" => {
                self.fault_unless_bound(node, flag);
                let zero = || Data::zero(&Type::I32).into();
                Ok(Part::Value(Value::Tuple((0..form.dims).map(|_| zero()).collect())))
            }
            Part::Value(Value::Record(record, fields)) => {
                let field = record.position(&name).and_then(|index| fields.into_iter().nth(index));
                field.map(part_of).ok_or_else(|| {
                    let message = format!("struct `{}` has no field `{name}`", record.name);
                    self.error(node, ErrorKind::UnknownAttribute, message)
                })
            }
            Part::Value(value) => {
                let message = format!("{value} has no attribute `{name}`");
                Err(self.error(node, ErrorKind::UnknownAttribute, message))
            }
        }
    }

    fn array_attribute(&self, node: Node, view: &View, name: &str) -> Lowered<Value> {
        match name {
            "shape" if !self.is_python() => {
                let extents = (0..view.rank()).map(|nth| Data::scalar(Dtype::I32, view.extent(nth)).into());
                Ok(Value::Tuple(extents.collect()))
            }
            "ndim" if !self.is_python() => {
                let rank = i128::try_from(view.rank()).expect("at most 4");
                Ok(self.number(Number::Int(rank)).without_constant().into())
            }
            _ => {
                let message = format!("unsupported attribute `{name}` of an array");
                Err(self.error(node, ErrorKind::UnknownAttribute, message))
            }
        }
    }

    fn resolve_subscript(&mut self, node: Node) -> Lowered<Part> {
        let syntax = self.syntax();
        let base = self.resolve(syntax.required(node, Field::Value))?;
        let slice = syntax.required(node, Field::Slice);
        let indices: Vec<_> = match syntax.kind(slice) {
            Kind::Tuple => syntax.children(slice, Field::Elts).collect(),
            _ => vec![slice],
        };
        match base {
            Part::Value(Value::Array(view)) => {
                let view = self.present(node, view);
                self.element(node, view, &indices)
            }
            Part::Value(Value::Unbound(element, form, flag)) if indices.len() == usize::from(form.dims) => {
                self.fault_unless_bound(node, flag);
                Ok(part_of(Data::zero(&element).into()))
            }
            Part::Value(Value::Tuple(items)) if self.is_beyond_shape(node, &items, &indices) => {
                Ok(part_of(Data::scalar(Dtype::I32, scalars::integer(Dtype::I32, 0)).into()))
            }
            Part::Value(Value::Tuple(items)) => self.item(node, items, &indices).map(part_of),
            Part::Location(location) => self.component(node, location, &indices).map(Part::Location),
            Part::Value(value) => Err(self.error(node, ErrorKind::TypeMismatch, format!("{value} cannot be indexed"))),
        }
    }

    /// Returns true for an extent beyond the dimensions of an array, such as `a.shape[2]` of two dimensions. Warp has four, and 0 for those
    /// that the array has not.
    fn is_beyond_shape(&self, node: Node, items: &[Value], indices: &[Node]) -> bool {
        let syntax = self.syntax();
        let base = syntax.required(node, Field::Value);
        let is_shape = syntax.kind(base) == Kind::Attribute && syntax.name(base).as_deref() == Some("shape");
        match indices {
            [index] if is_shape && !self.is_python() => {
                let beyond = i128::try_from(items.len()).expect("at most 4")..MAX_DIMS;
                matches!(self.outer_number(*index), Some(Number::Int(index)) if beyond.contains(&index))
            }
            _ => false,
        }
    }

    fn item(&mut self, node: Node, items: Vec<Value>, indices: &[Node]) -> Lowered<Value> {
        let count = u32::try_from(items.len()).expect("tuples are written in the source");
        let [index] = indices else {
            return Err(self.error(node, ErrorKind::TypeMismatch, "expected one index of a tuple"));
        };
        match self.index(*index, count)? {
            Index::Constant(position) => Ok(items.into_iter().nth(position as usize).expect("checked")),
            Index::Dynamic(_) | Index::Slice(_) => {
                Err(self.error(*index, ErrorKind::NotConstant, "expected a constant index of a tuple"))
            }
        }
    }

    /// The component, row or slice at indices.
    fn component(&mut self, node: Node, location: Location, indices: &[Node]) -> Lowered<Location> {
        let selection = match (&location.ty, indices) {
            (Type::Vector(dtype, count), [index]) => {
                let dtype = *dtype;
                let count = *count;
                let index = self.index(*index, count)?;
                items(index, count, 1, |length| match length {
                    None => Type::Scalar(dtype),
                    Some(length) => Type::Vector(dtype, length),
                })
            }
            (Type::Quat(dtype), [index]) => {
                let dtype = *dtype;
                let index = self.index(*index, 4)?;
                items(index, 4, 1, |length| length.map_or(Type::Scalar(dtype), |length| Type::Vector(dtype, length)))
            }
            (Type::Transform(dtype), [index]) => {
                let dtype = *dtype;
                let index = self.index(*index, 7)?;
                items(index, 7, 1, |length| length.map_or(Type::Scalar(dtype), |length| Type::Vector(dtype, length)))
            }
            (Type::Matrix(dtype, rows, columns), [index]) => {
                let dtype = *dtype;
                let rows = *rows;
                let columns = *columns;
                let index = self.index(*index, rows)?;
                items(index, rows, columns, |length| match length {
                    None => Type::Vector(dtype, columns),
                    Some(rows) => Type::Matrix(dtype, rows, columns),
                })
            }
            (Type::Matrix(dtype, rows, columns), [row, column]) => {
                let dtype = *dtype;
                let rows = *rows;
                let columns = *columns;
                let row = self.index(*row, rows)?;
                let column = self.index(*column, columns)?;
                matrix_item(dtype, row, column, (rows, columns))
            }
            (Type::Tile(tile), indices) if indices.len() == tile.shape.len() => {
                let tile = tile.clone();
                let position = self.tile_index(&tile.shape, indices)?;
                let count = |count: usize| u32::try_from(count).expect("components are limited");
                items(position, count(tile.count()), count(tile.element.count()), |_| tile.element.clone())
            }
            (ty, indices) => {
                let message = format!("{ty} does not take {} indices", indices.len());
                return Err(self.error(node, ErrorKind::TypeMismatch, message));
            }
        };
        Ok(narrow(location, &selection))
    }

    /// The position of a tile's element among all of them.
    fn tile_index(&mut self, shape: &[u32], indices: &[Node]) -> Lowered<Index> {
        let mut position = Index::Constant(0);
        for (&node, &extent) in indices.iter().zip(shape) {
            let index = self.index(node, extent)?;
            position = match (position, index) {
                (Index::Constant(outer), Index::Constant(inner)) => Index::Constant(outer * extent + inner),
                (Index::Constant(0), inner @ Index::Dynamic(_)) => inner,
                (Index::Constant(outer), Index::Dynamic(inner)) => {
                    Index::Dynamic(flat(scalars::integer(Dtype::I32, outer.into()), extent, inner))
                }
                (Index::Dynamic(outer), Index::Constant(inner)) => {
                    Index::Dynamic(flat(outer, extent, scalars::integer(Dtype::I32, inner.into())))
                }
                (Index::Dynamic(outer), Index::Dynamic(inner)) => Index::Dynamic(flat(outer, extent, inner)),
                (_, Index::Slice(_)) | (Index::Slice(_), _) => {
                    let message = "slices of tiles are unsupported";
                    return Err(self.error(node, ErrorKind::UnsupportedExpression, message));
                }
            };
        }
        Ok(position)
    }

    /// An index of one of `count` items. Negative ones count from the end, and any other outside is an error or a fault.
    fn index(&mut self, node: Node, count: u32) -> Lowered<Index> {
        if self.syntax().kind(node) == Kind::Slice {
            return self.slice(node, count).map(Index::Slice);
        }
        let value = self.expression(node)?;
        let Value::Data(data) = &value else {
            return Err(self.error(node, ErrorKind::TypeMismatch, format!("expected an index, got {value}")));
        };
        let Some((dtype, part)) = data.as_scalar().filter(|(dtype, _)| dtype.is_integer()) else {
            return Err(self.error(node, ErrorKind::TypeMismatch, format!("expected an integer index, got {value}")));
        };
        let constant = match (data.constant, part) {
            (Some(Number::Int(position)), _) => Some(position),
            (_, Expr::Literal(literal)) => Some(literal.cast(Dtype::I64).as_i64().into()),
            _ => None,
        };
        if let Some(position) = constant {
            let position = if position < 0 { position + i128::from(count) } else { position };
            return match u32::try_from(position) {
                Ok(position) if position < count => Ok(Index::Constant(position)),
                _ => {
                    let message =
                        format!("expected an index of {count} components, got {}", shorten(&self.syntax().text(node)));
                    Err(self.error(node, ErrorKind::IndexOutOfRange, message))
                }
            };
        }
        let (index, dtype) = Self::index_of(dtype, part.clone());
        let index = self.emitter.bind(dtype, index);
        let index = self.index_within(node, dtype, index, &scalars::integer(dtype, count.into()));
        let index = scalars::cast(dtype, Dtype::I32, index);
        Ok(Index::Dynamic(self.emitter.bind(Dtype::I32, index)))
    }

    /// The indices of a slice with constant bounds.
    fn slice(&mut self, node: Node, count: u32) -> Lowered<Vec<u32>> {
        let mut bound = |field| -> Lowered<Option<i64>> {
            let Some(bound) = self.syntax().child(node, field) else { return Ok(None) };
            match self.expression(bound)? {
                Value::Data(Data { constant: Some(Number::Int(value)), .. }) => Ok(i64::try_from(value).ok()),
                _ => Err(self.error(bound, ErrorKind::NotConstant, "expected a constant as a bound of the slice")),
            }
        };
        let lower = bound(Field::Lower)?;
        let upper = bound(Field::Upper)?;
        let step = bound(Field::Step)?.unwrap_or(1);
        let length = i64::from(count);
        let clamp = |bound: i64, minimum, maximum| {
            let bound = if bound < 0 { bound.saturating_add(length) } else { bound };
            bound.clamp(minimum, maximum)
        };
        let mut indices = vec![];
        if step > 0 {
            let end = upper.map_or(length, |upper| clamp(upper, 0, length));
            let mut index = lower.map_or(0, |lower| clamp(lower, 0, length));
            while index < end {
                indices.push(index);
                index = index.saturating_add(step);
            }
        } else if step < 0 {
            let end = upper.map_or(-1, |upper| clamp(upper, -1, length - 1));
            let mut index = lower.map_or(length - 1, |lower| clamp(lower, -1, length - 1));
            while index > end {
                indices.push(index);
                index = index.saturating_add(step);
            }
        }
        if indices.is_empty() {
            return Err(self.error(node, ErrorKind::IndexOutOfRange, "expected a slice of at least one component"));
        }
        Ok(indices.into_iter().map(|index| u32::try_from(index).expect("within the vector")).collect())
    }

    /// Reads a location.
    pub(crate) fn read(&mut self, location: Location) -> Data {
        let types = location.ty.components();
        let choices: Vec<Vec<Expr>> = location
            .choices
            .iter()
            .map(|choice| {
                choice
                    .iter()
                    .zip(&types)
                    .map(|(&position, dtype)| self.read_one(&location.storage, position, *dtype))
                    .collect()
            })
            .collect();
        let Some(index) = location.index else {
            return Data::new(location.ty, choices.into_iter().next().expect("a choice"));
        };
        let parts = (0..types.len()).map(|part| {
            let mut options = choices.iter().map(|choice| choice[part].clone()).enumerate().rev();
            let (_, last) = options.next().expect("a choice");
            options.fold(last, |rest, (position, option)| {
                let rest = if position % MAX_CHAIN == 0 { self.emitter.bind(types[part], rest) } else { rest };
                let position = i64::try_from(position).expect("components are limited");
                scalars::select(
                    scalars::eq(Dtype::I32, index.clone(), scalars::integer(Dtype::I32, position)),
                    option,
                    rest,
                )
            })
        });
        let parts: Vec<_> = parts.collect();
        self.bind(Data::new(location.ty, parts))
    }

    fn read_one(&mut self, storage: &Storage, index: u32, dtype: Dtype) -> Expr {
        match storage {
            Storage::Locals(slots) => Expr::Local(slots[index as usize]),
            Storage::Parts(parts) => parts[index as usize].clone(),
            Storage::Element { array, indices, site } => {
                let local = self.emitter.local("t", dtype);
                let site = self.emitter.access_site(*site, *array, indices);
                let place = Place { array: *array, indices: indices.clone(), component: index, site };
                self.emitter.emit(Stmt::Load(local, place));
                Expr::Local(local)
            }
        }
    }

    /// Writes a value of the location's type.
    pub(crate) fn write(&mut self, node: Node, location: Location, data: Data) -> Lowered<()> {
        if location.ty != data.ty {
            let message = format!("expected {}, got {}", location.ty, data.ty);
            return Err(self.error(node, ErrorKind::TypeMismatch, message));
        }
        let Some(index) = location.index else {
            let choice = location.choices.into_iter().next().expect("a choice");
            self.write_choice(&location.storage, &choice, data.parts);
            return Ok(());
        };
        let data = self.bind(data);
        for (position, choice) in location.choices.into_iter().enumerate() {
            self.emitter.open();
            self.write_choice(&location.storage, &choice, data.parts.clone());
            let stmts = self.emitter.close();
            let position = i64::try_from(position).expect("components are limited");
            let is_chosen = scalars::eq(Dtype::I32, index.clone(), scalars::integer(Dtype::I32, position));
            self.emitter.emit(Stmt::If(is_chosen, stmts, vec![]));
        }
        Ok(())
    }

    fn write_choice(&mut self, storage: &Storage, choice: &[u32], parts: Vec<Expr>) {
        match storage {
            Storage::Locals(slots) => {
                let slots: Vec<_> = choice.iter().map(|&index| slots[index as usize]).collect();
                self.store_locals(&slots, parts);
            }
            Storage::Parts(_) => unreachable!("a target is no value"),
            Storage::Element { array, indices, site } => {
                let site = self.emitter.access_site(*site, *array, indices);
                for (&component, part) in choice.iter().zip(parts) {
                    let place = Place { array: *array, indices: indices.clone(), component, site };
                    self.emitter.emit(Stmt::Store(place, part));
                }
            }
        }
    }

    /// A value that is stored to a location of a type: a constant of Python takes its type.
    pub(crate) fn converted_element(&self, node: Node, ty: &Type, data: Data) -> Lowered<Data> {
        if *ty == data.ty {
            return Ok(data);
        }
        if let Type::Scalar(dtype) = ty
            && let Some(data) = adapted(&data, *dtype)
        {
            return Ok(data);
        }
        Err(self.error(node, ErrorKind::TypeMismatch, format!("expected {ty}, got {}", data.ty)))
    }
}

fn part_of(value: Value) -> Part {
    match value {
        Value::Data(data) => Part::Location(Lowerer::whole(data.ty, Storage::Parts(data.parts))),
        other => Part::Value(other),
    }
}

/// The components of an attribute.
fn attribute(ty: &Type, name: &str) -> Option<Selection> {
    let scalar = |dtype: Dtype, index: usize| Selection {
        ty: Type::Scalar(dtype),
        choices: vec![vec![u32::try_from(index).expect("components are limited")]],
        index: None,
    };
    let letter = |count: u32| {
        let index = ["x", "y", "z", "w"].iter().position(|letter| *letter == name)?;
        (index < count as usize).then_some(index)
    };
    match ty {
        Type::Vector(dtype, count) => letter(*count).map(|index| scalar(*dtype, index)),
        Type::Quat(dtype) => letter(4).map(|index| scalar(*dtype, index)),
        Type::Transform(dtype) => match name {
            "p" => Some(Selection { ty: Type::Vector(*dtype, 3), choices: vec![vec![0, 1, 2]], index: None }),
            "q" => Some(Selection { ty: Type::Quat(*dtype), choices: vec![vec![3, 4, 5, 6]], index: None }),
            _ => None,
        },
        Type::Struct(structure) => {
            let mut start = 0;
            for (field, ty) in &structure.fields {
                let count = u32::try_from(ty.count()).expect("components are limited");
                if field == name {
                    return Some(Selection {
                        ty: ty.clone(),
                        choices: vec![(start..start + count).collect()],
                        index: None,
                    });
                }
                start += count;
            }
            None
        }
        Type::Scalar(_) | Type::Matrix(..) | Type::Tile(_) => None,
    }
}

/// Items of `size` components each at an index; `ty` is the type of one, or of several.
fn items(index: Index, count: u32, size: u32, ty: impl Fn(Option<u32>) -> Type) -> Selection {
    let item = |position: u32| position * size..(position + 1) * size;
    match index {
        Index::Constant(position) => Selection { ty: ty(None), choices: vec![item(position).collect()], index: None },
        Index::Dynamic(index) => Selection {
            ty: ty(None),
            choices: (0..count).map(|position| item(position).collect()).collect(),
            index: Some(index),
        },
        Index::Slice(indices) => {
            let length = u32::try_from(indices.len()).expect("components are limited");
            let choice = indices.into_iter().flat_map(item).collect();
            Selection { ty: ty(Some(length)), choices: vec![choice], index: None }
        }
    }
}

/// The item of a matrix at a row and column, each of which may be a slice.
fn matrix_item(dtype: Dtype, row: Index, column: Index, shape: (u32, u32)) -> Selection {
    let (rows, columns) = shape;
    // The choices along a dimension of some positions each.
    let choices = |index: &Index, count: u32| match index {
        Index::Constant(position) => vec![vec![*position]],
        Index::Slice(indices) => vec![indices.clone()],
        Index::Dynamic(_) => (0..count).map(|position| vec![position]).collect(),
    };
    let length = |index: &Index| match index {
        Index::Slice(indices) => Some(u32::try_from(indices.len()).expect("components are limited")),
        Index::Constant(_) | Index::Dynamic(_) => None,
    };
    let ty = match (length(&row), length(&column)) {
        (None, None) => Type::Scalar(dtype),
        (Some(length), None) | (None, Some(length)) => Type::Vector(dtype, length),
        (Some(rows), Some(columns)) => Type::Matrix(dtype, rows, columns),
    };
    let in_columns = choices(&column, columns);
    let choice = |rows: &[u32], inner: &[u32]| {
        rows.iter().flat_map(|row| inner.iter().map(move |column| row * columns + column)).collect()
    };
    let in_rows = choices(&row, rows);
    let choices = in_rows.iter().flat_map(|rows| in_columns.iter().map(|inner| choice(rows, inner))).collect();
    let index = match (row, column) {
        (Index::Dynamic(row), Index::Dynamic(column)) => Some(flat(row, columns, column)),
        (Index::Dynamic(index), _) | (_, Index::Dynamic(index)) => Some(index),
        _ => None,
    };
    Selection { ty, choices, index }
}

/// The index of (outer, inner) where there are `count` inner ones.
fn flat(outer: Expr, count: u32, inner: Expr) -> Expr {
    let start = scalars::mul(Dtype::I32, outer, scalars::integer(Dtype::I32, count.into()));
    scalars::add(Dtype::I32, start, inner)
}

/// The part of a location that a selection of its components has.
fn narrow(location: Location, selection: &Selection) -> Location {
    let compose = |outer: &Vec<u32>| {
        let choices = selection.choices.iter();
        choices
            .map(|inner| inner.iter().map(|&position| outer[position as usize]).collect::<Vec<_>>())
            .collect::<Vec<_>>()
    };
    let count = u32::try_from(selection.choices.len()).expect("components are limited");
    let index = match (location.index, selection.index.clone()) {
        (Some(outer), Some(inner)) => Some(flat(outer, count, inner)),
        (outer, inner) => outer.or(inner),
    };
    Location {
        ty: selection.ty.clone(),
        storage: location.storage,
        choices: location.choices.iter().flat_map(compose).collect(),
        index,
    }
}
