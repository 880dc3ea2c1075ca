//! Well-typed kernels by seed, with all statements and operations.

use accelerd_ir::{
    Dtype,
    kernel::{
        Argument, ArrayArgument, AtomicOp, Expr, FaultKind, Kernel, LabelId, LocalId, ParamId, Place, SiteId, Stmt,
    },
    scalar::{BinaryOp, Literal, UnaryOp},
};

use super::{Builder, binary, cast, int, integer, select, unary};

/// A sequence of pseudo-random numbers: a Weyl sequence, mixed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        x ^ (x >> 32)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.bits() % limit as u64).expect("below a limit that fits")
    }

    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn literal(&mut self, dtype: Dtype) -> Literal {
        match self.below(4) {
            0 => Literal::from_bits(dtype, self.bits()),
            1 => {
                Literal::from_f64(dtype, self.pick(&[0.0, -0.0, 1.0, -1.0, 0.5, 1e9, f64::INFINITY, f64::NAN, 65519.9]))
            }
            2 => Literal::from_bits(dtype, self.pick(&[1 << 63, (1 << 63) - 1, 1 << 31, (1 << 31) - 1, 0x80, 0x7fff])),
            _ => Literal::from_i64(dtype, i64::try_from(self.below(20)).expect("small") - 6),
        }
    }
}

/// A kernel and the arguments of its launch.
pub(crate) struct Subject {
    pub(crate) kernel: Kernel,
    pub(crate) grid: Vec<u32>,
    pub(crate) arguments: Vec<Argument>,
}

struct Generator {
    random: Random,
    /// Statements and operations are those that vectors have.
    is_vector: bool,
    dtypes: Vec<Dtype>,
    grid_dims: u8,
    arrays: Vec<(ParamId, Dtype, u8)>,
    values: Vec<(ParamId, Dtype)>,
    locals: Vec<(LocalId, Dtype)>,
    /// Labels around the statement, and whether each is a loop.
    labels: Vec<(LabelId, bool)>,
    next_label: u32,
}

pub(crate) fn kernel(seed: u64) -> Subject {
    let mut random = Random::new(seed);
    let grid: Vec<u32> = (0..=random.below(3)).map(|_| 1 + u32::try_from(random.below(4)).expect("small")).collect();
    let grid_dims = u8::try_from(grid.len()).expect("few");
    let mut builder = Builder::new(grid_dims);
    let mut arrays = vec![];
    let mut values = vec![];
    let mut locals = vec![];
    let mut arguments = vec![];
    for dtype in Dtype::ALL {
        let dims = 1 + u8::try_from(random.below(3)).expect("small");
        arrays.push((builder.array(dtype, dims), dtype, dims));
        arguments.push(array(&mut random, dtype, dims));
        values.push((builder.value(dtype), dtype));
        arguments.push(Argument::Value(bytes(random.literal(dtype))));
        locals.extend([(); 2].map(|()| (builder.local(dtype), dtype)));
    }
    let dtypes = Dtype::ALL.to_vec();
    let labels = vec![];
    let mut generator =
        Generator { random, is_vector: false, dtypes, grid_dims, arrays, values, locals, labels, next_label: 0 };
    let body = generator.body(3, 6);
    Subject { kernel: builder.finish(body), grid, arguments }
}

/// A kernel that vectors can run, most of whose arrays are contiguous and large enough.
pub(crate) fn vector_kernel(seed: u64) -> Subject {
    let mut random = Random::new(seed);
    let threads = random.below(60);
    let mut builder = Builder::new(1);
    let dtypes = vec![Dtype::Bool, Dtype::U32, Dtype::I32, Dtype::F32];
    let mut arrays = vec![];
    let mut values = vec![];
    let mut locals = vec![];
    let mut arguments = vec![];
    // The first variable is the position, and is not assigned again.
    let position = builder.local(Dtype::I32);
    for dtype in dtypes.clone() {
        values.push((builder.value(dtype), dtype));
        arguments.push(Argument::Value(bytes(random.literal(dtype))));
        locals.extend([(); 2].map(|()| (builder.local(dtype), dtype)));
        if dtype != Dtype::Bool {
            arrays.push((builder.array(dtype, 1), dtype, 1));
            arguments.push(array_of_threads(&mut random, dtype, threads));
        }
    }
    let labels = vec![];
    let mut generator =
        Generator { random, is_vector: true, dtypes, grid_dims: 1, arrays, values, locals, labels, next_label: 0 };
    let mut body = generator.body(3, 6);
    body.insert(0, Stmt::Assign(position, Expr::ThreadId(0)));
    Subject { kernel: builder.finish(body), grid: vec![u32::try_from(threads).expect("few")], arguments }
}

fn array_of_threads(random: &mut Random, dtype: Dtype, threads: usize) -> Argument {
    let extent = match random.below(12) {
        0 => threads / 2,
        1 => threads + 3,
        _ => threads,
    };
    let gap = if random.one_in(10) { 2 } else { 1 };
    let data = (0..extent * gap).flat_map(|_| bytes(random.literal(dtype))).collect();
    let shape = vec![i32::try_from(extent).expect("small")];
    let strides = vec![i64::try_from(gap * dtype.size()).expect("small")];
    Argument::Array(ArrayArgument { data, shape, strides, offset: 0 })
}

/// Returns true if vectors have the operation.
fn is_vector_unary(op: UnaryOp, dtype: Dtype) -> bool {
    use UnaryOp::{Abs, Ceil, Floor, Neg, Not, Round, SignBit, Sqrt, Trunc};
    let has_op = [Abs, Ceil, Floor, Neg, Not, Round, SignBit, Sqrt, Trunc].contains(&op);
    has_op && dtype.compute() == dtype
}

/// Returns true if vectors have the operation.
fn is_vector_binary(op: BinaryOp, dtype: Dtype) -> bool {
    use BinaryOp::{Add, And, Div, Eq, Le, Lt, Max, Min, Mul, Ne, Or, Sub, Xor};
    [Add, And, Eq, Le, Lt, Max, Min, Mul, Ne, Or, Sub, Xor].contains(&op) || (op == Div && dtype == Dtype::F32)
}

fn array(random: &mut Random, dtype: Dtype, dims: u8) -> Argument {
    let shape: Vec<i32> = (0..dims).map(|_| 2 + i32::try_from(random.below(5)).expect("small")).collect();
    let count: i32 = shape.iter().product();
    let data = (0..count).flat_map(|_| bytes(random.literal(dtype))).collect();
    Argument::contiguous(data, &shape, dtype.size())
}

fn bytes(literal: Literal) -> Vec<u8> {
    literal.bits().to_le_bytes()[..literal.dtype().size()].to_vec()
}

impl Generator {
    fn body(&mut self, depth: usize, limit: usize) -> Vec<Stmt> {
        (0..=self.random.below(limit)).map(|_| self.stmt(depth)).collect()
    }

    fn label(&mut self) -> LabelId {
        self.next_label += 1;
        LabelId(self.next_label)
    }

    fn labeled(&mut self, is_loop: bool, depth: usize) -> (LabelId, Vec<Stmt>) {
        let label = self.label();
        self.labels.push((label, is_loop));
        let body = self.body(depth - 1, 4);
        self.labels.pop();
        (label, body)
    }

    fn stmt(&mut self, depth: usize) -> Stmt {
        if self.is_vector {
            return self.vector_stmt(depth);
        }
        match self.random.below(if depth == 0 { 12 } else { 19 }) {
            0..=2 => {
                let (local, dtype) = self.random.pick(&self.locals);
                Stmt::Assign(local, self.expr(dtype, 4))
            }
            3..=5 => {
                let (array, dtype, dims) = self.random.pick(&self.arrays);
                Stmt::Load(self.local(dtype), self.place(array, dims))
            }
            6..=8 => {
                let (array, dtype, dims) = self.random.pick(&self.arrays);
                Stmt::Store(self.place(array, dims), self.expr(dtype, 4))
            }
            9 => self.atomic(),
            10 => self.leave(),
            11 if self.random.one_in(4) => self.end(),
            12 | 13 => self.branch(depth),
            14 | 15 => self.range(depth),
            16 => {
                let (label, body) = self.labeled(false, depth);
                Stmt::Block(label, body)
            }
            17 => {
                let (label, mut body) = self.labeled(true, depth);
                if !self.random.one_in(8) {
                    body.push(Stmt::If(self.expr(Dtype::Bool, 2), vec![Stmt::Break(label)], vec![]));
                }
                Stmt::Loop(label, body)
            }
            _ => {
                let (local, dtype) = self.random.pick(&self.locals);
                Stmt::Assign(local, self.expr(dtype, 6))
            }
        }
    }

    fn vector_stmt(&mut self, depth: usize) -> Stmt {
        let (array, dtype, _) = self.random.pick(&self.arrays);
        let site = SiteId(u32::try_from(self.random.below(8)).expect("small"));
        let index = if self.random.one_in(2) { Expr::ThreadId(0) } else { Expr::Local(LocalId(0)) };
        let place = Place { array, indices: vec![index], component: 0, site };
        if depth > 1 && self.labels.len() + depth == 3 && self.random.one_in(4) {
            return self.uniform_range(depth);
        }
        match self.random.below(if depth == 0 { 6 } else { 9 }) {
            0 | 1 => Stmt::Load(self.local(dtype), place),
            2 | 3 => Stmt::Store(place, self.expr(dtype, 4)),
            4 | 5 => {
                let (local, dtype) = self.random.pick(&self.locals);
                Stmt::Assign(local, self.expr(dtype, 4))
            }
            8 => Stmt::If(self.expr(Dtype::Bool, 2), vec![Stmt::Return], vec![]),
            _ => self.branch(depth),
        }
    }

    /// A loop in no branch, which all threads run alike.
    fn uniform_range(&mut self, depth: usize) -> Stmt {
        let dtype = if self.random.one_in(2) { Dtype::I32 } else { Dtype::U32 };
        let counter = self.local(dtype);
        let param = self.values.iter().find(|(_, one)| *one == dtype).expect("a value of each type").0;
        let limit = binary(BinaryOp::And, Expr::Param(param, 0), integer(dtype, 3));
        let [start, end] = [self.small(dtype), if self.random.one_in(2) { limit } else { self.small(dtype) }];
        let step = integer(dtype, self.random.pick(&[1, 2, -1]));
        let (label, body) = self.labeled(true, depth);
        Stmt::For { label, counter, start, end, step, body }
    }

    fn branch(&mut self, depth: usize) -> Stmt {
        let condition = self.expr(Dtype::Bool, 3);
        let then = self.body(depth - 1, 4);
        let otherwise = if self.random.one_in(2) { vec![] } else { self.body(depth - 1, 4) };
        Stmt::If(condition, then, otherwise)
    }

    fn atomic(&mut self) -> Stmt {
        let (array, dtype, dims) = self.random.pick(&self.arrays);
        let ops: Vec<_> = AtomicOp::ALL
            .into_iter()
            // The bits of a NaN are undefined.
            .filter(|op| op.takes(dtype) && !(dtype.is_float() && *op == AtomicOp::CompareExchange))
            .collect();
        if ops.is_empty() {
            return Stmt::Load(self.local(dtype), self.place(array, dims));
        }
        let op = self.random.pick(&ops);
        let place = self.place(array, dims);
        let operand = self.expr(dtype, 3);
        let expected = (op == AtomicOp::CompareExchange).then(|| self.expr(dtype, 1));
        let previous = if self.random.one_in(2) { None } else { Some(self.local(dtype)) };
        Stmt::Atomic { op, place, operand, expected, previous }
    }

    /// Leaves or continues what encloses the statement, on a condition.
    fn leave(&mut self) -> Stmt {
        if self.labels.is_empty() {
            return Stmt::If(self.expr(Dtype::Bool, 2), vec![], vec![]);
        }
        let (label, is_loop) = self.random.pick(&self.labels);
        let leave = if is_loop && self.random.one_in(2) { Stmt::Continue(label) } else { Stmt::Break(label) };
        Stmt::If(self.expr(Dtype::Bool, 2), vec![leave], vec![])
    }

    fn end(&mut self) -> Stmt {
        let kinds = [FaultKind::Assertion, FaultKind::DivisionByZero, FaultKind::InvalidValue, FaultKind::OutOfBounds];
        let site = SiteId(u32::try_from(self.random.below(8)).expect("small"));
        let end = if self.random.one_in(2) { Stmt::Return } else { Stmt::Fault(self.random.pick(&kinds), site) };
        let rare = binary(BinaryOp::Lt, self.expr(Dtype::I8, 2), integer(Dtype::I8, -90));
        Stmt::If(rare, vec![end], vec![])
    }

    fn range(&mut self, depth: usize) -> Stmt {
        let counters: Vec<_> = self.locals.iter().copied().filter(|(_, dtype)| dtype.is_integer()).collect();
        let (counter, dtype) = self.random.pick(&counters);
        let [start, end] =
            [(); 2].map(|()| if self.random.one_in(4) { self.expr(dtype, 2) } else { self.small(dtype) });
        let step =
            if self.random.one_in(6) { self.expr(dtype, 2) } else { integer(dtype, self.random.pick(&[1, 1, 2, -1])) };
        let (label, body) = self.labeled(true, depth);
        Stmt::For { label, counter, start, end, step, body }
    }

    fn small(&mut self, dtype: Dtype) -> Expr {
        integer(dtype, i64::try_from(self.random.below(6)).expect("small"))
    }

    fn local(&mut self, dtype: Dtype) -> LocalId {
        let all: Vec<_> = self.locals.iter().filter(|(_, one)| *one == dtype).map(|(local, _)| *local).collect();
        self.random.pick(&all)
    }

    fn place(&mut self, array: ParamId, dims: u8) -> Place {
        let site = SiteId(u32::try_from(self.random.below(8)).expect("small"));
        let indices = (0..dims).map(|axis| self.index(array, axis)).collect();
        Place { array, indices, component: 0, site }
    }

    /// Most are in range.
    fn index(&mut self, array: ParamId, axis: u8) -> Expr {
        let grid_axis = u8::try_from(self.random.below(self.grid_dims.into())).expect("small");
        match self.random.below(40) {
            0..=9 => int(self.random.pick(&[0, 1])),
            10..=19 => binary(BinaryOp::Min, Expr::ThreadId(grid_axis), int(1)),
            20 => Expr::ThreadId(grid_axis),
            21 => int(self.random.pick(&[-1, 4, 7])),
            22 => self.expr(Dtype::I64, 2),
            23..=29 => cast(Dtype::I64, self.wrapped(array, axis)),
            _ => self.wrapped(array, axis),
        }
    }

    /// Any number, by its remainder within the dimension.
    fn wrapped(&mut self, array: ParamId, axis: u8) -> Expr {
        let any = cast(Dtype::U32, self.expr(Dtype::I32, 2));
        let extent = cast(Dtype::U32, Expr::Extent(array, axis));
        cast(Dtype::I32, binary(BinaryOp::Rem, any, extent))
    }

    fn leaf(&mut self, dtype: Dtype) -> Expr {
        match self.random.below(4) {
            0 => Expr::Literal(self.random.literal(dtype)),
            1 => {
                let found = self.values.iter().find(|(_, one)| *one == dtype).expect("a value of each type");
                Expr::Param(found.0, 0)
            }
            2 if dtype == Dtype::I32 => {
                Expr::ThreadId(u8::try_from(self.random.below(self.grid_dims.into())).expect("small"))
            }
            _ => Expr::Local(self.local(dtype)),
        }
    }

    fn expr(&mut self, dtype: Dtype, depth: usize) -> Expr {
        if depth == 0 || self.random.one_in(6) {
            return self.leaf(dtype);
        }
        match self.random.below(10) {
            0..=2 => self.unary(dtype, depth - 1),
            3..=6 => self.binary(dtype, depth - 1),
            7 => {
                let condition = self.expr(Dtype::Bool, depth - 1);
                select(condition, self.expr(dtype, depth - 1), self.expr(dtype, depth - 1))
            }
            8 => self.bitcast(dtype, depth - 1),
            _ => {
                let from = self.random.pick(&self.dtypes);
                cast(dtype, self.expr(from, depth - 1))
            }
        }
    }

    fn unary(&mut self, dtype: Dtype, depth: usize) -> Expr {
        let ops: Vec<_> = UnaryOp::ALL
            .into_iter()
            .flat_map(|op| Dtype::ALL.map(|of| (op, of)))
            .filter(|(op, of)| op.result(*of) == Some(dtype) && self.dtypes.contains(of))
            .filter(|(op, of)| !self.is_vector || is_vector_unary(*op, *of))
            .collect();
        if ops.is_empty() {
            return self.leaf(dtype);
        }
        let (op, of) = self.random.pick(&ops);
        let operand = self.expr(of, depth);
        // The sign of a NaN is undefined.
        let operand = if op == UnaryOp::SignBit { number_or(of, operand) } else { operand };
        unary(op, operand)
    }

    fn binary(&mut self, dtype: Dtype, depth: usize) -> Expr {
        let ops: Vec<_> = BinaryOp::ALL
            .into_iter()
            .flat_map(|op| Dtype::ALL.map(|of| (op, of)))
            .filter(|(op, of)| op.result(*of) == Some(dtype) && self.dtypes.contains(of))
            .filter(|(op, of)| !self.is_vector || is_vector_binary(*op, *of))
            .collect();
        if ops.is_empty() {
            return self.leaf(dtype);
        }
        let (op, of) = self.random.pick(&ops);
        let a = self.expr(of, depth);
        let b = self.expr(of, depth);
        let b = if op == BinaryOp::CopySign { number_or(of, b) } else { b };
        binary(op, a, b)
    }

    fn bitcast(&mut self, dtype: Dtype, depth: usize) -> Expr {
        if dtype == Dtype::Bool {
            return self.leaf(dtype);
        }
        let fits = |from: &Dtype| from.size() == dtype.size() && *from != Dtype::Bool;
        let all: Vec<_> = self.dtypes.iter().copied().filter(fits).collect();
        let from = self.random.pick(&all);
        let operand = self.expr(from, depth);
        let operand = if from.is_float() { number_or(from, operand) } else { operand };
        Expr::Bitcast(dtype, Box::new(operand))
    }
}

/// The operand, or 1 if it is NaN, whose bits are undefined.
fn number_or(dtype: Dtype, operand: Expr) -> Expr {
    let wide = cast(dtype.compute(), operand.clone());
    let is_nan = binary(BinaryOp::Ne, wide.clone(), wide);
    select(is_nan, Expr::Literal(Literal::from_f64(dtype, 1.0)), operand)
}
