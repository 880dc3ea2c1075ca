//! Tiles of Warp, as values with components. A block has one thread, as on the CPU: `wp.tile(x)` has the value of that thread alone, and
//! the functions that combine the values of a block combine the elements of a tile in row-major order.

use std::rc::Rc;

use accelerd_ir::Dtype;
use accelerd_ir::kernel::{AtomicOp, Expr, FaultKind, Stmt};
use accelerd_parser::{Field, Kind, Operator};

use crate::error::{ErrorKind, Lowered};
use crate::lowerer::Lowerer;
use crate::lowerer::arguments::Arguments;
use crate::source::environment::Number;
use crate::source::syntax::Node;
use crate::types::{MAX_COMPONENTS, TileType, Type};
use crate::values::constants::adapted;
use crate::values::scalars;
use crate::values::{Axis, Callable, Data, Location, Storage, Value, View};
use crate::warp::builtins;
use crate::warp::operators::is_atomic;

/// The functions whose only argument is a tile.
const OF_ONE_TILE: [&str; 11] = [
    "tile_argmax",
    "tile_argmin",
    "tile_max",
    "tile_min",
    "tile_scan_exclusive",
    "tile_scan_inclusive",
    "tile_scan_max_inclusive",
    "tile_scan_min_inclusive",
    "tile_sum",
    "tile_transpose",
    "untile",
];

impl Lowerer<'_> {
    /// Calls a function of tiles.
    pub(super) fn tile_call(&mut self, node: Node, name: &str, arguments: &Arguments) -> Lowered<Value> {
        match name {
            "tile" => self.tile_of_value(node, arguments).map(Value::Data),
            "tile_zeros" | "tile_empty" | "tile_ones" | "tile_full" => {
                self.filled_tile(node, name, arguments).map(Value::Data)
            }
            "tile_load" => self.tile_load(node, arguments).map(Value::Data),
            "tile_store" => self.tile_store(node, arguments),
            "tile_atomic_add" => self.tile_atomic_add(node, arguments).map(Value::Data),
            "tile_extract" => {
                self.refuse_other_keywords(node, arguments, &[])?;
                let (data, tile) = self.tile_argument(node, name, arguments)?;
                self.extracted(node, &data, &tile, &arguments.positional[1..]).map(Value::Data)
            }
            "tile_map" => self.tile_map(node, arguments).map(Value::Data),
            "tile_reduce" => self.tile_reduce(node, arguments).map(Value::Data),
            _ if OF_ONE_TILE.contains(&name) => {
                self.refuse_other_keywords(node, arguments, &[])?;
                self.expect_count(node, name, arguments, 1..=1)?;
                let (data, tile) = self.tile_argument(node, name, arguments)?;
                let elements = elements(&data, &tile);
                let result = match name {
                    "untile" => untiled(data, &tile),
                    "tile_sum" => self.folded(elements, "add"),
                    "tile_min" => self.folded(elements, "min"),
                    "tile_max" => self.folded(elements, "max"),
                    "tile_argmin" | "tile_argmax" => self.tile_position(name, &data, &tile),
                    "tile_scan_inclusive" => self.scanned(elements, &tile, "add"),
                    "tile_scan_exclusive" => self.scanned_before(elements, &tile),
                    "tile_scan_max_inclusive" => self.scanned(elements, &tile, "max"),
                    "tile_scan_min_inclusive" => self.scanned(elements, &tile, "min"),
                    _ => transposed(&elements, &tile),
                };
                let message = || format!("`{name}` does not take a {}", Type::Tile(tile.clone()));
                let result = result.ok_or_else(|| self.error(node, ErrorKind::ArgumentMismatch, message()))?;
                Ok(result.into())
            }
            _ => {
                let message = format!("unsupported function `{name}`");
                Err(self.error(node, ErrorKind::UnsupportedBuiltin, message))
            }
        }
    }

    /// The tile that is the first argument, with its type.
    fn tile_argument(&mut self, node: Node, name: &str, arguments: &Arguments) -> Lowered<(Data, Rc<TileType>)> {
        let Some(&argument) = arguments.positional.first() else {
            return Err(self.error(node, ErrorKind::ArgumentMismatch, format!("`{name}` takes a tile")));
        };
        let value = self.expression_or_call(argument)?;
        self.tile_value(node, name, value)
    }

    fn tile_value(&mut self, node: Node, name: &str, value: Value) -> Lowered<(Data, Rc<TileType>)> {
        let message = format!("expected a tile as an argument of `{name}`, got {value}");
        if let Value::Data(data) = value
            && let Type::Tile(tile) = data.ty.clone()
        {
            return Ok((self.bind(data), tile));
        }
        Err(self.error(node, ErrorKind::ArgumentMismatch, message))
    }

    /// `wp.tile_extract(t, i, ...)`. Unlike those of subscripts, negative indices are outside the tile.
    fn extracted(&mut self, node: Node, data: &Data, tile: &TileType, indices: &[Node]) -> Lowered<Data> {
        if indices.len() != tile.shape.len() {
            let message = format!("expected {} indices of the tile, got {}", tile.shape.len(), indices.len());
            return Err(self.error(node, ErrorKind::ArgumentMismatch, message));
        }
        let dtype = Dtype::I32;
        let mut position = scalars::integer(dtype, 0);
        for (&index, &extent) in indices.iter().zip(&tile.shape) {
            let (from, part) = self.scalar(index)?;
            if !from.is_integer() {
                let message = format!("expected an integer as an index, got {}", Type::Scalar(from));
                return Err(self.error(index, ErrorKind::TypeMismatch, message));
            }
            // Beyond 32 bits it is outside as well.
            let part = self.emitter.bind(from, part);
            let extent = scalars::integer(dtype, extent.into());
            let is_negative = scalars::lt(from, part.clone(), scalars::integer(from, 0));
            let is_beyond = scalars::le(from, scalars::cast(dtype, from, extent.clone()), part.clone());
            let is_outside = if from.is_signed() { scalars::or(is_negative, is_beyond) } else { is_beyond };
            self.emitter.fault_if(is_outside, FaultKind::OutOfBounds, self.syntax().site(index));
            let outer = scalars::mul(dtype, position, extent);
            position = self.emitter.bind(dtype, scalars::add(dtype, outer, scalars::cast(from, dtype, part)));
        }
        let count = u32::try_from(tile.element.count()).expect("components are limited");
        let starts = (0..).step_by(tile.element.count()).take(tile.count());
        let choices = starts.map(|start: u32| (start..start + count).collect()).collect();
        let storage = Storage::Parts(data.parts.clone());
        Ok(self.read(Location { ty: tile.element.clone(), storage, choices, index: Some(position) }))
    }

    /// `wp.tile(x)`: the values of the threads of a block, which has one. The components of a vector or matrix become elements, unless its
    /// type is preserved.
    fn tile_of_value(&mut self, node: Node, arguments: &Arguments) -> Lowered<Data> {
        self.refuse_other_keywords(node, arguments, &["preserve_type"])?;
        let option = arguments.positional.get(1).copied().or_else(|| Self::keyword(arguments, "preserve_type"));
        let preserves = match option.map(|option| self.outer_number(option)) {
            None => false,
            Some(Some(Number::Bool(preserves))) => preserves,
            Some(_) => return Err(self.error(node, ErrorKind::NotConstant, "expected a constant `preserve_type`")),
        };
        let argument = arguments.positional.first().copied();
        let value = argument.map(|argument| self.expression_or_call(argument)).transpose()?;
        let Some(Value::Data(data)) = value.filter(|_| arguments.positional.len() <= 2) else {
            return Err(self.error(node, ErrorKind::ArgumentMismatch, "`tile` takes a value"));
        };
        let (element, shape) = match data.ty.clone() {
            Type::Vector(dtype, length) if !preserves => (Type::Scalar(dtype), vec![length, 1]),
            Type::Quat(dtype) if !preserves => (Type::Scalar(dtype), vec![4, 1]),
            Type::Matrix(dtype, rows, columns) if !preserves => (Type::Scalar(dtype), vec![rows, columns, 1]),
            Type::Tile(_) => {
                return Err(self.error(node, ErrorKind::ArgumentMismatch, "`tile` takes a value, got a tile"));
            }
            other => (other, vec![1]),
        };
        Ok(Data::new(Type::Tile(Rc::new(TileType { element, shape })), data.parts))
    }

    /// The shape of a tile: a constant, or a tuple of them.
    fn tile_shape(&mut self, node: Node, argument: Option<Node>, element: Type) -> Lowered<Rc<TileType>> {
        let Some(argument) = argument else {
            return Err(self.error(node, ErrorKind::ArgumentMismatch, "expected the `shape` of the tile"));
        };
        let syntax = self.syntax();
        let sizes: Vec<_> = match syntax.kind(argument) {
            Kind::Tuple => syntax.children(argument, Field::Elts).take(5).collect(),
            _ => vec![argument],
        };
        let shape = sizes.into_iter().map(|size| self.size_argument(size)).collect::<Lowered<Vec<_>>>()?;
        let count = shape.iter().fold(element.count(), |count, size| count.saturating_mul(*size as usize));
        if shape.is_empty() || shape.len() > 4 || count > MAX_COMPONENTS {
            let message = format!("expected a tile of 1 to 4 dimensions and at most {MAX_COMPONENTS} components");
            return Err(self.error(node, ErrorKind::UnsupportedType, message));
        }
        Ok(Rc::new(TileType { element, shape }))
    }

    /// `wp.tile_zeros(shape, dtype)`, `wp.tile_ones(shape, dtype)` and `wp.tile_full(shape, value, dtype)`.
    fn filled_tile(&mut self, node: Node, name: &str, arguments: &Arguments) -> Lowered<Data> {
        self.refuse_other_keywords(node, arguments, &["shape", "value", "dtype", "storage"])?;
        let is_full = name == "tile_full";
        let argument = |at, name| arguments.positional.get(at).copied().or_else(|| Self::keyword(arguments, name));
        let dtype = argument(if is_full { 2 } else { 1 }, "dtype");
        let scope = self.outer_scope();
        let ty = dtype.map(|dtype| {
            let named = self.environment.data_type(dtype, scope).filter(|_| !self.names_local(dtype));
            let ty = if named.is_some() { Ok(named) } else { self.type_expression(dtype) };
            ty?.ok_or_else(|| self.error(dtype, ErrorKind::ArgumentMismatch, "expected a type as `dtype`"))
        });
        let ty = ty.transpose()?;
        let value = match argument(1, "value").filter(|_| is_full) {
            Some(value) => match self.expression(value)? {
                Value::Data(data) => data,
                other => {
                    let message = format!("expected a value to fill the tile with, got {other}");
                    return Err(self.error(node, ErrorKind::ArgumentMismatch, message));
                }
            },
            None if is_full => return Err(self.error(node, ErrorKind::ArgumentMismatch, "expected a `value`")),
            None => {
                let ty = ty.clone().unwrap_or(Type::Scalar(Dtype::F32));
                let one = if name == "tile_ones" { 1.0 } else { 0.0 };
                let is_plain = matches!(ty, Type::Scalar(_) | Type::Vector(..) | Type::Matrix(..));
                if one != 0.0 && !is_plain {
                    let message = format!("`{name}` of {ty} is unsupported");
                    return Err(self.error(node, ErrorKind::UnsupportedType, message));
                }
                let parts = ty.components().into_iter().map(|dtype| scalars::literal(dtype, one)).collect();
                Data::new(ty, parts)
            }
        };
        let ty = ty.unwrap_or_else(|| value.ty.clone());
        let value = match (&ty, value.as_scalar()) {
            (Type::Scalar(to), Some((from, part))) if *to != from => {
                adapted(&value, *to).unwrap_or_else(|| Data::scalar(*to, scalars::cast(from, *to, part.clone())))
            }
            _ => value,
        };
        let value = self.converted_element(node, &ty, value)?;
        let value = self.bind(value);
        let tile = self.tile_shape(node, argument(0, "shape"), ty)?;
        let parts = (0..tile.count()).flat_map(|_| value.parts.clone()).collect();
        Ok(Data::new(Type::Tile(tile), parts))
    }

    /// The array of a call, and the offset of a tile in each of its dimensions.
    fn tile_place(
        &mut self,
        node: Node,
        name: &str,
        arguments: &Arguments,
        offset: Option<Node>,
    ) -> Lowered<(View, Vec<Expr>)> {
        self.refuse_other_keywords(
            node,
            arguments,
            &["a", "t", "shape", "offset", "storage", "bounds_check", "aligned"],
        )?;
        let array = arguments.positional.first().copied().or_else(|| Self::keyword(arguments, "a"));
        let view = array.map(|array| self.expression_or_call(array)).transpose()?;
        let Some(Value::Array(view)) = view else {
            return Err(self.error(node, ErrorKind::ArgumentMismatch, format!("`{name}` takes an array")));
        };
        let syntax = self.syntax();
        let nodes: Vec<_> = match offset {
            Some(offset) if syntax.kind(offset) == Kind::Tuple => syntax.children(offset, Field::Elts).collect(),
            Some(offset) => vec![offset],
            None => return Ok((view.clone(), vec![scalars::integer(Dtype::I32, 0); view.rank()])),
        };
        let mut offsets = vec![];
        for node in nodes.into_iter().take(5) {
            let (dtype, part) = self.scalar(node)?;
            if !dtype.is_integer() {
                let message = format!("expected integers as `offset`, got {}", Type::Scalar(dtype));
                return Err(self.error(node, ErrorKind::TypeMismatch, message));
            }
            let part = scalars::cast(dtype, Dtype::I32, part);
            offsets.push(self.emitter.bind(Dtype::I32, part));
        }
        Ok((view, offsets))
    }

    /// The element of an array for each element of a tile, with the condition that the array has it.
    fn tile_elements(
        &mut self,
        node: Node,
        tile: &TileType,
        view: &View,
        offsets: &[Expr],
    ) -> Lowered<Vec<(Expr, View)>> {
        if view.rank() != tile.shape.len() || offsets.len() != tile.shape.len() || view.element != tile.element {
            let message = format!(
                "the tile, of {} dimensions of {}, does not fit the {} and {} offsets",
                tile.shape.len(),
                tile.element,
                Value::Array(view.clone()),
                offsets.len()
            );
            return Err(self.error(node, ErrorKind::ArgumentMismatch, message));
        }
        let dims: Vec<_> = view.open().collect();
        let count = tile.count();
        let mut found = vec![];
        for nth in 0..count {
            let mut element = view.clone();
            let mut is_inside = vec![];
            let mut stride = count;
            for (at, (extent, offset)) in tile.shape.iter().zip(offsets).enumerate() {
                stride /= *extent as usize;
                let position = nth / stride % *extent as usize;
                let position = i64::try_from(position).expect("components are limited");
                let index = match offset {
                    Expr::Literal(offset) => scalars::integer(Dtype::I32, offset.as_i64().wrapping_add(position)),
                    _ if position == 0 => offset.clone(),
                    _ => {
                        let sum = scalars::add(Dtype::I32, offset.clone(), scalars::integer(Dtype::I32, position));
                        self.emitter.temp_of_any_sign(Dtype::I32, sum)
                    }
                };
                if !self.emitter.is_non_negative(&index) {
                    is_inside.push(scalars::le(Dtype::I32, scalars::integer(Dtype::I32, 0), index.clone()));
                }
                is_inside.push(scalars::lt(Dtype::I32, index.clone(), view.extent(at)));
                element.axes[dims[at]] = Axis::Index(index);
            }
            let is_inside = self.emitter.temp(Dtype::Bool, scalars::all(is_inside));
            found.push((is_inside, element));
        }
        Ok(found)
    }

    /// The location of an element, by indices that are within a view.
    fn location_within(&mut self, node: Node, view: &View, mut element: View) -> Location {
        for dim in view.open() {
            let Axis::Index(index) = element.axes[dim].clone() else { continue };
            let index = match &view.axes[dim] {
                Axis::Slice(slice) => self.index_in(node, slice, Dtype::I32, index),
                Axis::All | Axis::Index(_) => index,
            };
            element.axes[dim] = Axis::Index(self.selected(node, view, dim, index));
        }
        let indices = element.indices().expect("each dimension has an index");
        let storage = Storage::Element { array: view.array, indices, site: self.syntax().site(node) };
        Self::whole(view.element.clone(), storage)
    }

    /// `wp.tile_load(a, shape, offset)`. Elements outside the array are 0.
    fn tile_load(&mut self, node: Node, arguments: &Arguments) -> Lowered<Data> {
        let argument = |at, name| arguments.positional.get(at).copied().or_else(|| Self::keyword(arguments, name));
        let (view, offsets) = self.tile_place(node, "tile_load", arguments, argument(2, "offset"))?;
        let tile = self.tile_shape(node, argument(1, "shape"), view.element.clone())?;
        let mut parts = vec![];
        for (is_inside, element) in self.tile_elements(node, &tile, &view, &offsets)? {
            let zero = Data::zero(&tile.element);
            self.emitter.open();
            let location = self.location_within(node, &view, element);
            let loaded = self.read(location);
            let stmts = self.emitter.close();
            parts.extend(self.join(is_inside, (loaded, stmts), (zero, vec![])).parts);
        }
        Ok(Data::new(Type::Tile(tile), parts))
    }

    /// The tile, and each element of the array for an element of it, of `wp.tile_store` and `wp.tile_atomic_add`.
    #[expect(clippy::type_complexity, reason = "the parts of a call")]
    fn tile_targets(
        &mut self,
        node: Node,
        name: &str,
        arguments: &Arguments,
    ) -> Lowered<(Rc<TileType>, View, Vec<(Data, Expr, View)>)> {
        let argument = |at, name| arguments.positional.get(at).copied().or_else(|| Self::keyword(arguments, name));
        let (view, offsets) = self.tile_place(node, name, arguments, argument(2, "offset"))?;
        let Some(value) = argument(1, "t") else {
            return Err(self.error(node, ErrorKind::ArgumentMismatch, format!("`{name}` takes a tile")));
        };
        let value = self.expression_or_call(value)?;
        let (data, tile) = self.tile_value(node, name, value)?;
        let places = self.tile_elements(node, &tile, &view, &offsets)?;
        let elements = elements(&data, &tile).into_iter().zip(places);
        Ok((tile, view, elements.map(|(data, (is_inside, element))| (data, is_inside, element)).collect()))
    }

    /// `wp.tile_store(a, t, offset)`. Elements outside the array are left out.
    fn tile_store(&mut self, node: Node, arguments: &Arguments) -> Lowered<Value> {
        let (_, view, targets) = self.tile_targets(node, "tile_store", arguments)?;
        for (data, is_inside, element) in targets {
            self.emitter.open();
            let location = self.location_within(node, &view, element);
            let written = self.write(node, location, data);
            let stmts = self.emitter.close();
            written?;
            self.emitter.emit(Stmt::If(is_inside, stmts, vec![]));
        }
        Ok(Value::None)
    }

    /// `wp.tile_atomic_add(a, t, offset)`: the previous elements, or 0 outside the array.
    fn tile_atomic_add(&mut self, node: Node, arguments: &Arguments) -> Lowered<Data> {
        let name = "tile_atomic_add";
        let (tile, view, targets) = self.tile_targets(node, name, arguments)?;
        if !tile.element.scalar().is_some_and(|dtype| is_atomic(AtomicOp::Add, dtype)) {
            let message = format!("`{name}` of {} is unsupported", tile.element);
            return Err(self.error(node, ErrorKind::UnsupportedType, message));
        }
        let mut parts = vec![];
        for (data, is_inside, element) in targets {
            self.emitter.open();
            let location = self.location_within(node, &view, element);
            let previous = self.atomic(AtomicOp::Add, &location, data.parts, None, true);
            let stmts = self.emitter.close();
            let previous = Data::new(tile.element.clone(), previous);
            parts.extend(self.join(is_inside, (previous, stmts), (Data::zero(&tile.element), vec![])).parts);
        }
        Ok(Data::new(Type::Tile(tile), parts))
    }

    /// `wp.tile_reduce(op, t)`.
    fn tile_reduce(&mut self, node: Node, arguments: &Arguments) -> Lowered<Data> {
        self.expect_count(node, "tile_reduce", arguments, 2..=2)?;
        let function = self.tile_function(node, "tile_reduce", arguments)?;
        let value = self.expression_or_call(arguments.positional[1])?;
        let (data, tile) = self.tile_value(node, "tile_reduce", value)?;
        let mut elements = elements(&data, &tile).into_iter();
        let mut result = elements.next().expect("a tile has an element");
        for element in elements {
            let message = format!("expected {} as the result of the function of `tile_reduce`", tile.element);
            result = self.applied(node, &function, vec![result, element])?;
            if result.ty != tile.element {
                return Err(self.error(node, ErrorKind::TypeMismatch, message));
            }
        }
        Ok(of_one(result))
    }

    /// `wp.tile_map(op, a, b, ...)`, where values other than tiles stand for each element.
    fn tile_map(&mut self, node: Node, arguments: &Arguments) -> Lowered<Data> {
        self.refuse_other_keywords(node, arguments, &[])?;
        let function = self.tile_function(node, "tile_map", arguments)?;
        let (first, tile) = match arguments.positional.get(1) {
            Some(&first) => {
                let value = self.expression_or_call(first)?;
                self.tile_value(node, "tile_map", value)?
            }
            None => return Err(self.error(node, ErrorKind::ArgumentMismatch, "`tile_map` takes a tile")),
        };
        let mut operands = vec![elements(&first, &tile)];
        for &argument in &arguments.positional[2..] {
            operands.push(match self.expression_or_call(argument)? {
                Value::Data(data) if let Type::Tile(other) = data.ty.clone() => {
                    if other.shape != tile.shape {
                        let message = format!("expected tiles of one shape, got {} and {}", first.ty, data.ty);
                        return Err(self.error(node, ErrorKind::TypeMismatch, message));
                    }
                    elements(&self.bind(data), &other)
                }
                Value::Data(data) => vec![self.bind(data); tile.count()],
                other => {
                    let message = format!("expected tiles or values, got {other}");
                    return Err(self.error(node, ErrorKind::ArgumentMismatch, message));
                }
            });
        }
        let mut parts = vec![];
        let mut element = None;
        for nth in 0..tile.count() {
            let operands = operands.iter().map(|operand| operand[nth].clone()).collect();
            let result = self.applied(node, &function, operands)?;
            let result = self.bind(result);
            element = Some(result.ty);
            parts.extend(result.parts);
        }
        let element = element.expect("a tile has an element");
        if parts.len() > MAX_COMPONENTS || matches!(element, Type::Tile(_)) {
            let message = format!("expected a tile of at most {MAX_COMPONENTS} components");
            return Err(self.error(node, ErrorKind::UnsupportedType, message));
        }
        Ok(Data::new(Type::Tile(Rc::new(TileType { element, shape: tile.shape.clone() })), parts))
    }

    /// The function that is the first argument.
    fn tile_function(&mut self, node: Node, name: &str, arguments: &Arguments) -> Lowered<Callable> {
        let function = arguments.positional.first().copied().map(|function| self.expression(function)).transpose()?;
        match function {
            Some(Value::Function(function)) => Ok(function),
            _ => Err(self.error(node, ErrorKind::ArgumentMismatch, format!("`{name}` takes a function"))),
        }
    }

    /// The result of a function of values.
    fn applied(&mut self, node: Node, function: &Callable, operands: Vec<Data>) -> Lowered<Data> {
        let result = match function {
            Callable::Builtin(name) if builtins::is_known(name) => self.warp_builtin(name, operands),
            Callable::Builtin(_) => None,
            Callable::Defined(indices) => {
                let all = &self.environment.declarations.functions;
                let candidates: Vec<_> = indices.iter().map(|&index| &all[index]).collect();
                let values: Vec<_> = operands.into_iter().map(Value::Data).collect();
                let Some(first) = candidates.first() else {
                    return Err(self.error(node, ErrorKind::UnknownName, "expected a function that is defined"));
                };
                Some(self.call_values(node, &first.name, &candidates, &values)?)
            }
        };
        result.and_then(data_of).ok_or_else(|| {
            let message = "the function does not take the elements of the tiles";
            self.error(node, ErrorKind::ArgumentMismatch, message)
        })
    }

    /// A tile of one element that combines all, in order.
    fn folded(&mut self, elements: Vec<Data>, function: &str) -> Option<Data> {
        let mut elements = elements.into_iter();
        let first = elements.next()?;
        let combined = elements.try_fold(first, |result, element| {
            let result = self.bind(result);
            data_of(self.warp_builtin(function, vec![result, element])?)
        })?;
        Some(of_one(combined))
    }

    /// A tile of scalars whose elements combine those up to their positions. A sum starts at 0.0, which changes -0.0.
    fn scanned(&mut self, elements: Vec<Data>, tile: &Rc<TileType>, function: &str) -> Option<Data> {
        let mut combined = (function == "add").then(|| Data::zero(&tile.element));
        let mut parts = vec![];
        for element in elements {
            element.as_scalar()?;
            let result = match combined {
                Some(before) => data_of(self.warp_builtin(function, vec![before, element])?)?,
                None => element,
            };
            let result = self.bind(result);
            parts.extend(result.parts.clone());
            combined = Some(result);
        }
        Some(Data::new(Type::Tile(tile.clone()), parts))
    }

    /// A tile of scalars whose elements are the sums of those before their positions.
    fn scanned_before(&mut self, mut elements: Vec<Data>, tile: &Rc<TileType>) -> Option<Data> {
        elements.pop();
        elements.insert(0, Data::zero(&tile.element));
        self.scanned(elements, tile, "add")
    }

    /// A tile of one element with the position of the least or greatest scalar.
    fn tile_position(&mut self, name: &str, data: &Data, tile: &TileType) -> Option<Data> {
        let Type::Scalar(dtype) = tile.element else { return None };
        let count = u32::try_from(tile.count()).expect("components are limited");
        let all = Data::new(Type::Vector(dtype, count), data.parts.clone());
        let position = data_of(self.warp_builtin(name.strip_prefix("tile_")?, vec![all])?)?;
        let (from, part) = position.as_scalar()?;
        Some(of_one(Data::scalar(Dtype::I32, scalars::cast(from, Dtype::I32, part.clone()))))
    }

    /// An operator of two tiles of one shape, or of a tile and a value for each element.
    pub(super) fn tile_operation(&mut self, op: Operator, left: Data, right: Data) -> Option<Data> {
        let tile = match (&left.ty, &right.ty) {
            (Type::Tile(a), Type::Tile(b)) if a.shape != b.shape => return None,
            (Type::Tile(_), Type::Tile(_)) if !matches!(op, Operator::MatMult) => left.ty.clone(),
            (Type::Tile(_), _) if matches!(op, Operator::Mult | Operator::Div) => left.ty.clone(),
            (_, Type::Tile(_)) if matches!(op, Operator::Mult | Operator::Div) => right.ty.clone(),
            _ => return None,
        };
        let Type::Tile(tile) = tile else { return None };
        let mut operand = |data: Data| match data.ty.clone() {
            Type::Tile(tile) => elements(&data, &tile),
            _ => vec![self.bind(data); tile.count()],
        };
        let operands = operand(left).into_iter().zip(operand(right)).collect::<Vec<_>>();
        let results = operands.into_iter().map(|(a, b)| self.warp_operation(op, a, b)).collect::<Option<Vec<_>>>()?;
        let element = results.first()?.ty.clone();
        let parts: Vec<_> = results.into_iter().flat_map(|data| data.parts).collect();
        let is_small = parts.len() <= MAX_COMPONENTS;
        is_small.then(|| Data::new(Type::Tile(Rc::new(TileType { element, shape: tile.shape.clone() })), parts))
    }
}

fn data_of(value: Value) -> Option<Data> {
    match value {
        Value::Data(data) => Some(data),
        _ => None,
    }
}

/// The elements of a tile.
fn elements(data: &Data, tile: &TileType) -> Vec<Data> {
    data.parts.chunks(tile.element.count()).map(|parts| Data::new(tile.element.clone(), parts.to_vec())).collect()
}

/// A tile of two dimensions with rows and columns exchanged.
fn transposed(elements: &[Data], tile: &TileType) -> Option<Data> {
    let [rows, columns] = tile.shape[..] else { return None };
    let places = (0..columns).flat_map(|column| (0..rows).map(move |row| row * columns + column));
    let parts = places.flat_map(|place| elements[place as usize].parts.clone()).collect();
    Some(Data::new(Type::Tile(Rc::new(TileType { element: tile.element.clone(), shape: vec![columns, rows] })), parts))
}

/// A tile of one element.
fn of_one(element: Data) -> Data {
    Data::new(Type::Tile(Rc::new(TileType { element: element.ty, shape: vec![1] })), element.parts)
}

/// The value of the only thread of a block, if the last dimension is that of threads.
fn untiled(data: Data, tile: &TileType) -> Option<Data> {
    let ty = match (&tile.element, &tile.shape[..]) {
        (element, [1]) => element.clone(),
        (Type::Scalar(dtype), [length, 1]) => Type::Vector(*dtype, *length),
        (Type::Scalar(dtype), [rows, columns, 1]) => Type::Matrix(*dtype, *rows, *columns),
        _ => return None,
    };
    Some(Data::new(ty, data.parts))
}
