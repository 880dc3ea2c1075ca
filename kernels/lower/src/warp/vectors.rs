//! Functions of Warp on vectors and matrices.

use accelerd_ir::Dtype;
use accelerd_ir::kernel::Expr;
use accelerd_ir::scalar::UnaryOp;

use crate::lowerer::Lowerer;
use crate::types::{MAX_COMPONENTS, Type};
use crate::values::Data;
use crate::values::scalars::{self, dot, literal};

impl Lowerer<'_> {
    /// A function of one vector or matrix, whose parts are cheap.
    pub(crate) fn of_vector(&mut self, name: &str, a: &Data) -> Option<Data> {
        let dtype = a.ty.scalar().filter(|dtype| *dtype != Dtype::Bool)?;
        let at = |nth: usize| a.parts[nth].clone();
        let zero = || literal(dtype, 0.0);
        match (name, &a.ty) {
            ("length", Type::Vector(..) | Type::Quat(_)) if dtype.is_float() => {
                Some(Data::scalar(dtype, length(dtype, &a.parts)))
            }
            ("length_sq", Type::Vector(..) | Type::Quat(_)) => {
                Some(Data::scalar(dtype, dot(dtype, &a.parts, &a.parts)))
            }
            ("normalize", Type::Vector(..)) if dtype.is_float() => Some(self.normalized(a)),
            ("skew", Type::Vector(_, 3)) => {
                let minus = |nth| scalars::neg(dtype, at(nth));
                let parts = vec![zero(), minus(2), at(1), at(2), zero(), minus(0), minus(1), at(0), zero()];
                Some(Data::new(Type::Matrix(dtype, 3, 3), parts))
            }
            ("diag", Type::Vector(_, n)) if (*n as usize).pow(2) <= MAX_COMPONENTS => {
                let count = *n as usize;
                let part = |nth: usize| if nth / count == nth % count { at(nth / count) } else { zero() };
                Some(Data::new(Type::Matrix(dtype, *n, *n), (0..count * count).map(part).collect()))
            }
            ("get_diag", Type::Matrix(_, n, m)) if n == m => {
                let count = *n as usize;
                Some(Data::new(Type::Vector(dtype, *n), (0..count).map(|nth| at(nth * count + nth)).collect()))
            }
            ("trace", Type::Matrix(_, n, m)) if n == m => {
                let count = *n as usize;
                Some(Data::scalar(dtype, scalars::sum(dtype, (0..count).map(|nth| at(nth * count + nth)))))
            }
            ("transpose", Type::Matrix(_, n, m)) => {
                let rows = *n as usize;
                let columns = *m as usize;
                let parts = (0..rows * columns).map(|nth| at(nth % rows * columns + nth / rows)).collect();
                Some(Data::new(Type::Matrix(dtype, *m, *n), parts))
            }
            ("determinant", Type::Matrix(_, n, m)) if n == m && dtype.is_float() => {
                let det = match n {
                    2 => determinant2(dtype, a),
                    3 => determinant3(dtype, a),
                    4 => {
                        let (cofactors, det) = self.cofactors4(dtype, a);
                        let _ = cofactors;
                        scalars::cast(Dtype::F64, dtype, det)
                    }
                    _ => return None,
                };
                Some(Data::scalar(dtype, det))
            }
            ("inverse", Type::Matrix(_, n, m)) if n == m && dtype.is_float() => match n {
                2 => Some(self.inverse2(dtype, a)),
                3 => Some(self.inverse3(dtype, a)),
                4 => Some(self.inverse4(dtype, a)),
                _ => None,
            },
            ("spatial_top", Type::Vector(_, 6)) => Some(Data::new(Type::Vector(dtype, 3), a.parts[..3].to_vec())),
            ("spatial_bottom", Type::Vector(_, 6)) => Some(Data::new(Type::Vector(dtype, 3), a.parts[3..].to_vec())),
            _ => None,
        }
    }

    /// The vector divided by its length; zero if that is 0.
    pub(crate) fn normalized(&mut self, a: &Data) -> Data {
        let dtype = a.ty.scalar().expect("a vector of scalars");
        let length = self.emitter.temp(dtype, length(dtype, &a.parts));
        let is_positive = scalars::lt(dtype, literal(dtype, 0.0), length.clone());
        let is_positive = self.emitter.temp(Dtype::Bool, is_positive);
        a.map(|x| {
            let quotient = scalars::div(dtype, x, length.clone());
            scalars::select(is_positive.clone(), quotient, literal(dtype, 0.0))
        })
    }

    pub(crate) fn matrix_product(&mut self, a: Data, b: Data) -> Option<Data> {
        let (Type::Matrix(dtype, rows, inner), Type::Matrix(_, inner_b, columns)) = (&a.ty, &b.ty) else { return None };
        let dtype = *dtype;
        let rows = *rows;
        let inner = *inner;
        let columns = *columns;
        if inner != *inner_b || (rows * columns) as usize > MAX_COMPONENTS {
            return None;
        }
        let a = self.bind(a);
        let b = self.bind(b);
        let inner = inner as usize;
        let width = columns as usize;
        let part = |nth: usize| {
            let row = nth / width;
            let column = nth % width;
            let terms = (0..inner)
                .map(|k| scalars::mul(dtype, a.parts[row * inner + k].clone(), b.parts[k * width + column].clone()));
            scalars::sum(dtype, terms)
        };
        let parts = (0..rows as usize * width).map(part).collect();
        Some(Data::new(Type::Matrix(dtype, rows, columns), parts))
    }

    pub(crate) fn matrix_vector_product(&mut self, a: Data, b: Data) -> Option<Data> {
        let (Type::Matrix(dtype, rows, columns), Type::Vector(_, length)) = (&a.ty, &b.ty) else { return None };
        let dtype = *dtype;
        let rows = *rows;
        let width = *columns as usize;
        if columns != length {
            return None;
        }
        let a = self.bind(a);
        let b = self.bind(b);
        let parts = a.parts.chunks(width).map(|row| dot(dtype, row, &b.parts)).collect();
        Some(Data::new(Type::Vector(dtype, rows), parts))
    }

    pub(crate) fn vector_matrix_product(&mut self, a: Data, b: Data) -> Option<Data> {
        let (Type::Vector(dtype, length), Type::Matrix(_, rows, columns)) = (&a.ty, &b.ty) else { return None };
        let dtype = *dtype;
        let columns = *columns;
        if length != rows {
            return None;
        }
        let a = self.bind(a);
        let b = self.bind(b);
        let width = columns as usize;
        let part = |column: usize| {
            let rows = a.parts.iter().enumerate();
            scalars::sum(
                dtype,
                rows.map(|(row, x)| scalars::mul(dtype, b.parts[row * width + column].clone(), x.clone())),
            )
        };
        Some(Data::new(Type::Vector(dtype, columns), (0..width).map(part).collect()))
    }

    fn inverse2(&mut self, dtype: Dtype, m: &Data) -> Data {
        let det = self.emitter.temp(dtype, determinant2(dtype, m));
        let at = |nth: usize| m.parts[nth].clone();
        let adjugate = vec![at(3), scalars::neg(dtype, at(1)), scalars::neg(dtype, at(2)), at(0)];
        // Also where the determinant is NaN.
        let zero = || literal(dtype, 0.0);
        let is_regular = scalars::or(scalars::lt(dtype, zero(), det.clone()), scalars::lt(dtype, det.clone(), zero()));
        self.scaled(m, dtype, adjugate, det, is_regular)
    }

    fn inverse3(&mut self, dtype: Dtype, m: &Data) -> Data {
        let det = self.emitter.temp(dtype, determinant3(dtype, m));
        let minor = |a: usize, b: usize, c: usize, d: usize| {
            let at = |nth: usize| m.parts[nth].clone();
            scalars::sub(dtype, scalars::mul(dtype, at(a), at(b)), scalars::mul(dtype, at(c), at(d)))
        };
        let adjugate = vec![
            minor(4, 8, 5, 7),
            minor(2, 7, 1, 8),
            minor(1, 5, 2, 4),
            minor(5, 6, 3, 8),
            minor(0, 8, 2, 6),
            minor(2, 3, 0, 5),
            minor(3, 7, 4, 6),
            minor(1, 6, 0, 7),
            minor(0, 4, 1, 3),
        ];
        let is_regular = scalars::ne(dtype, det.clone(), literal(dtype, 0.0));
        self.scaled(m, dtype, adjugate, det, is_regular)
    }

    /// The adjugate divided by the determinant where that is not 0, else zero.
    fn scaled(&mut self, m: &Data, dtype: Dtype, adjugate: Vec<Expr>, det: Expr, is_regular: Expr) -> Data {
        let factor = self.emitter.temp(dtype, scalars::div(dtype, literal(dtype, 1.0), det));
        let is_regular = self.emitter.temp(Dtype::Bool, is_regular);
        let parts = adjugate.into_iter().map(|part| {
            let product = scalars::mul(dtype, part, factor.clone());
            scalars::select(is_regular.clone(), product, literal(dtype, 0.0))
        });
        Data::new(m.ty.clone(), parts.collect())
    }

    fn inverse4(&mut self, dtype: Dtype, m: &Data) -> Data {
        let (cofactors, det) = self.cofactors4(dtype, m);
        let wide = Dtype::F64;
        let det = self.emitter.bind(wide, det);
        let distance = scalars::unary(UnaryOp::Abs, wide, det.clone());
        let is_regular = scalars::lt(wide, literal(wide, 0.0), distance);
        let is_regular = self.emitter.temp(Dtype::Bool, is_regular);
        let factor = self.emitter.temp(wide, scalars::div(wide, literal(wide, 1.0), det));
        let parts = (0..16).map(|nth| {
            let row = nth / 4;
            let column = nth % 4;
            let product = scalars::mul(wide, cofactors[column * 4 + row].clone(), factor.clone());
            scalars::select(is_regular.clone(), scalars::cast(wide, dtype, product), literal(dtype, 0.0))
        });
        Data::new(m.ty.clone(), parts.collect())
    }

    /// The cofactors of a matrix of 4 x 4, and its determinant, in f64.
    ///
    /// Products of components are those of the matrix's type, as in Warp, and the cofactors of the first two columns are rounded to it.
    fn cofactors4(&mut self, dtype: Dtype, m: &Data) -> (Vec<Expr>, Expr) {
        let wide = Dtype::F64;
        let cell = |row: usize, column: usize| m.parts[row * 4 + column].clone();
        // Minors of two columns and two rows.
        let mut minors = vec![];
        for (left, right) in [(0, 1), (2, 3)] {
            let mut of_columns = vec![];
            for (a, b) in PAIRS {
                let first = scalars::mul(dtype, cell(a, left), cell(b, right));
                let second = scalars::mul(dtype, cell(b, left), cell(a, right));
                let minor = scalars::cast(dtype, wide, scalars::sub(dtype, first, second));
                of_columns.push(self.emitter.bind(wide, minor));
            }
            minors.push(of_columns);
        }
        let mut cofactors = vec![];
        for row in 0..4 {
            for column in 0..4 {
                // A cofactor of one pair of columns has minors of the other pair.
                let partner = column ^ 1;
                let of_columns = &minors[1 - column / 2];
                let mut rest = (0..4).filter(|other| *other != row);
                let [a, b, c] = [(); 3].map(|()| rest.next().expect("three other rows"));
                let minor = |p: usize, q: usize| of_columns[pair(p, q)].clone();
                let term = |r: usize, p: usize, q: usize| {
                    scalars::mul(wide, scalars::cast(dtype, wide, cell(r, partner)), minor(p, q))
                };
                let sum = scalars::add(wide, scalars::sub(wide, term(a, b, c), term(b, a, c)), term(c, a, b));
                let is_negative = (row + column) % 2 == 1;
                let sum = if is_negative { scalars::neg(wide, sum) } else { sum };
                let sum = match column {
                    0 | 1 => scalars::cast(dtype, wide, scalars::cast(wide, dtype, sum)),
                    _ => sum,
                };
                cofactors.push(self.emitter.bind(wide, sum));
            }
        }
        let terms = [3, 2, 1, 0]
            .map(|row| scalars::mul(dtype, cell(row, 0), scalars::cast(wide, dtype, cofactors[row * 4].clone())));
        let det = scalars::cast(dtype, wide, scalars::sum(dtype, terms));
        (cofactors, det)
    }
}

/// Pairs of rows.
const PAIRS: [(usize, usize); 6] = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];

fn pair(a: usize, b: usize) -> usize {
    PAIRS.iter().position(|&of| of == (a.min(b), a.max(b))).expect("two of four rows")
}

pub(crate) fn length(dtype: Dtype, parts: &[Expr]) -> Expr {
    scalars::unary(UnaryOp::Sqrt, dtype, dot(dtype, parts, parts))
}

pub(crate) fn cross(dtype: Dtype, a: &[Expr], b: &[Expr]) -> Vec<Expr> {
    let product = |x: usize, y: usize| scalars::mul(dtype, a[x].clone(), b[y].clone());
    [(1, 2), (2, 0), (0, 1)].map(|(x, y)| scalars::sub(dtype, product(x, y), product(y, x))).to_vec()
}

fn determinant2(dtype: Dtype, m: &Data) -> Expr {
    let product = |x: usize, y: usize| scalars::mul(dtype, m.parts[x].clone(), m.parts[y].clone());
    scalars::sub(dtype, product(0, 3), product(2, 1))
}

fn determinant3(dtype: Dtype, m: &Data) -> Expr {
    dot(dtype, &m.parts[..3], &cross(dtype, &m.parts[3..6], &m.parts[6..]))
}

/// A function of two vectors or matrices of one scalar type, whose parts are cheap.
pub(crate) fn of_two_vectors(name: &str, a: &Data, b: &Data) -> Option<Data> {
    let dtype = a.ty.scalar().filter(|dtype| *dtype != Dtype::Bool)?;
    match (name, &a.ty, &b.ty) {
        ("cross", Type::Vector(_, 3), Type::Vector(_, 3)) => {
            Some(Data::new(a.ty.clone(), cross(dtype, &a.parts, &b.parts)))
        }
        ("outer", Type::Vector(_, n), Type::Vector(_, m)) if (n * m) as usize <= MAX_COMPONENTS => {
            let product = |x: &Expr, y: &Expr| scalars::mul(dtype, x.clone(), y.clone());
            let parts = a.parts.iter().flat_map(|x| b.parts.iter().map(move |y| product(x, y))).collect();
            Some(Data::new(Type::Matrix(dtype, *n, *m), parts))
        }
        ("spatial_dot", Type::Vector(_, 6), Type::Vector(_, 6)) => {
            Some(Data::scalar(dtype, dot(dtype, &a.parts, &b.parts)))
        }
        ("spatial_cross", Type::Vector(_, 6), Type::Vector(_, 6)) => {
            let w = cross(dtype, &a.parts[..3], &b.parts[..3]);
            let v = cross(dtype, &a.parts[3..], &b.parts[..3]);
            let other = cross(dtype, &a.parts[..3], &b.parts[3..]);
            let sums = v.into_iter().zip(other).map(|(x, y)| scalars::add(dtype, x, y));
            Some(Data::new(a.ty.clone(), w.into_iter().chain(sums).collect()))
        }
        _ => None,
    }
}

/// `matrix_from_rows` and `matrix_from_cols`.
pub(crate) fn from_vectors(name: &str, vectors: &[Data]) -> Option<Data> {
    let (dtype, length) = match &vectors.first()?.ty {
        Type::Vector(dtype, length) => (*dtype, *length),
        _ => return None,
    };
    let count = u32::try_from(vectors.len()).ok()?;
    if vectors.iter().any(|vector| vector.ty != vectors[0].ty) || (length * count) as usize > MAX_COMPONENTS {
        return None;
    }
    let rows: Vec<_> = vectors.iter().flat_map(|vector| vector.parts.iter().cloned()).collect();
    let from_rows = Data::new(Type::Matrix(dtype, count, length), rows);
    match name {
        "matrix_from_rows" => Some(from_rows),
        "matrix_from_cols" => {
            let length_ = length as usize;
            let count_ = count as usize;
            let part = |nth: usize| from_rows.parts[nth % count_ * length_ + nth / count_].clone();
            let parts = (0..length_ * count_).map(part).collect();
            Some(Data::new(Type::Matrix(dtype, length, count), parts))
        }
        _ => None,
    }
}
