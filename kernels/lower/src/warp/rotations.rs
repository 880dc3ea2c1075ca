//! Functions of Warp on quaternions and transforms.

#![allow(clippy::many_single_char_names, reason = "the formulas' own names")]

use accelerd_ir::Dtype;
use accelerd_ir::kernel::Expr;
use accelerd_ir::scalar::{BinaryOp, UnaryOp};

use crate::lowerer::Lowerer;
use crate::types::Type;
use crate::values::scalars::{self, dot, literal};
use crate::values::{Data, Value};
use crate::warp::vectors::length;

/// Shorthands for the formulas of one scalar type.
#[derive(Clone, Copy)]
struct Formula(Dtype);

impl Formula {
    fn add(self, a: Expr, b: Expr) -> Expr {
        scalars::add(self.0, a, b)
    }

    fn sub(self, a: Expr, b: Expr) -> Expr {
        scalars::sub(self.0, a, b)
    }

    fn mul(self, a: &Expr, b: &Expr) -> Expr {
        scalars::mul(self.0, a.clone(), b.clone())
    }

    fn number(self, value: f64) -> Expr {
        literal(self.0, value)
    }

    fn apply(self, op: UnaryOp, a: Expr) -> Expr {
        scalars::unary(op, self.0, a)
    }
}

impl Lowerer<'_> {
    fn temps(&mut self, dtype: Dtype, parts: Vec<Expr>) -> Vec<Expr> {
        parts.into_iter().map(|part| self.emitter.bind(dtype, part)).collect()
    }

    /// A function of one quaternion, transform or matrix, whose parts are cheap.
    pub(crate) fn of_rotation(&mut self, name: &str, a: &Data) -> Option<Data> {
        let dtype = a.ty.scalar().filter(|dtype| dtype.is_float())?;
        match (name, &a.ty) {
            ("normalize", Type::Quat(_)) => Some(self.normalized_quat(dtype, a)),
            ("quat_inverse", Type::Quat(_)) => Some(Data::new(a.ty.clone(), conjugate(dtype, &a.parts))),
            ("quat_to_matrix", Type::Quat(_)) => Some(self.quat_to_matrix(dtype, a)),
            ("quat_from_matrix", Type::Matrix(_, n @ (3 | 4), m)) if n == m => {
                Some(self.quat_from_matrix(dtype, a, *n as usize))
            }
            ("transform_get_translation", Type::Transform(_)) => {
                Some(Data::new(Type::Vector(dtype, 3), a.parts[..3].to_vec()))
            }
            ("transform_get_rotation", Type::Transform(_)) => Some(Data::new(Type::Quat(dtype), a.parts[3..].to_vec())),
            ("transform_inverse", Type::Transform(_)) => {
                let inverse = conjugate(dtype, &a.parts[3..]);
                let inverse = self.temps(dtype, inverse);
                let moved = self.rotated(dtype, &inverse, &a.parts[..3], false);
                let parts = moved.into_iter().map(|part| scalars::neg(dtype, part)).chain(inverse).collect();
                Some(Data::new(a.ty.clone(), parts))
            }
            _ => None,
        }
    }

    /// A function of two values, one of them a rotation; parts are cheap.
    pub(crate) fn of_two_rotations(&mut self, name: &str, a: &Data, b: &Data) -> Option<Data> {
        let dtype = a.ty.scalar().filter(|dtype| dtype.is_float())?;
        match (name, &a.ty, &b.ty) {
            ("quat_from_axis_angle", Type::Vector(_, 3), Type::Scalar(_)) => {
                let parts = self.axis_rotation(dtype, &a.parts, &b.parts[0]);
                Some(Data::new(Type::Quat(dtype), parts))
            }
            ("quat_rotate" | "quat_rotate_inv", Type::Quat(_), Type::Vector(_, 3)) => {
                let parts = self.rotated(dtype, &a.parts, &b.parts, name == "quat_rotate_inv");
                Some(Data::new(b.ty.clone(), parts))
            }
            ("transform_multiply", Type::Transform(_), Type::Transform(_)) => {
                Some(self.transform_product(a.clone(), b.clone()))
            }
            ("transform_vector", Type::Transform(_), Type::Vector(_, 3)) => {
                Some(Data::new(b.ty.clone(), self.rotated(dtype, &a.parts[3..], &b.parts, false)))
            }
            ("transform_point", Type::Transform(_), Type::Vector(_, 3)) => {
                let moved = self.rotated(dtype, &a.parts[3..], &b.parts, false);
                let parts = a.parts.iter().zip(moved).map(|(p, x)| scalars::add(dtype, p.clone(), x)).collect();
                Some(Data::new(b.ty.clone(), parts))
            }
            ("transform_point" | "transform_vector", Type::Matrix(_, 4, 4), Type::Vector(_, 3)) => {
                let mut point = b.parts.clone();
                point.push(literal(dtype, if name == "transform_point" { 1.0 } else { 0.0 }));
                let parts = a.parts.chunks(4).take(3).map(|row| dot(dtype, row, &point)).collect();
                Some(Data::new(b.ty.clone(), parts))
            }
            _ => None,
        }
    }

    /// A function of three values; parts are cheap.
    pub(crate) fn of_three_rotations(&mut self, name: &str, a: &Data, b: &Data, c: &Data) -> Option<Data> {
        let dtype = a.ty.scalar().filter(|dtype| dtype.is_float())?;
        match (name, &a.ty, &b.ty, &c.ty) {
            ("quat_rpy", Type::Scalar(_), Type::Scalar(_), Type::Scalar(_)) => {
                Some(self.euler_rotation(dtype, [a, b, c].map(|data| data.parts[0].clone())))
            }
            ("quat_slerp", Type::Quat(_), Type::Quat(_), Type::Scalar(_)) => {
                let inverse = Data::new(a.ty.clone(), conjugate(dtype, &a.parts));
                let difference = self.quat_product(inverse, b.clone());
                let difference = self.bind(difference);
                let (axis, angle) = self.axis_angle(dtype, &difference);
                let axis = self.temps(dtype, axis);
                let angle = scalars::mul(dtype, c.parts[0].clone(), angle);
                let turn = self.axis_rotation(dtype, &axis, &angle);
                Some(self.quat_product(a.clone(), Data::new(a.ty.clone(), turn)))
            }
            _ => None,
        }
    }

    pub(crate) fn quat_product(&mut self, a: Data, b: Data) -> Data {
        let a = self.bind(a);
        let b = self.bind(b);
        let dtype = a.ty.scalar().expect("a quaternion of scalars");
        let f = Formula(dtype);
        let [ax, ay, az, aw] = four(&a.parts);
        let [bx, by, bz, bw] = four(&b.parts);
        let part = |terms: [(&Expr, &Expr); 4]| {
            let [p, q, r, s] = terms.map(|(x, y)| f.mul(x, y));
            f.sub(f.add(f.add(p, q), r), s)
        };
        let last = f.sub(f.sub(f.sub(f.mul(aw, bw), f.mul(ax, bx)), f.mul(ay, by)), f.mul(az, bz));
        let parts = vec![
            part([(aw, bx), (bw, ax), (ay, bz), (by, az)]),
            part([(aw, by), (bw, ay), (az, bx), (bz, ax)]),
            part([(aw, bz), (bw, az), (ax, by), (bx, ay)]),
            last,
        ];
        Data::new(a.ty, parts)
    }

    pub(crate) fn transform_product(&mut self, a: Data, b: Data) -> Data {
        let a = self.bind(a);
        let b = self.bind(b);
        let dtype = a.ty.scalar().expect("a transform of scalars");
        let moved = self
            .rotated(dtype, &a.parts[3..], &b.parts[..3], false)
            .into_iter()
            .zip(&a.parts)
            .map(|(x, p)| scalars::add(dtype, x, p.clone()))
            .collect();
        let quat = |data: &Data| Data::new(Type::Quat(dtype), data.parts[3..].to_vec());
        let rotation = self.quat_product(quat(&a), quat(&b));
        let parts: Vec<Expr> = [moved, rotation.parts].concat();
        Data::new(a.ty, parts)
    }

    /// A vector rotated by a quaternion of unit length, or by its inverse.
    fn rotated(&mut self, dtype: Dtype, q: &[Expr], x: &[Expr], is_inverse: bool) -> Vec<Expr> {
        let f = Formula(dtype);
        let two = f.number(2.0);
        let [qx, qy, qz, qw] = four(q);
        let c = f.sub(f.mul(&f.mul(&two, qw), qw), f.number(1.0));
        let d = f.mul(&two, &dot(dtype, &[qx.clone(), qy.clone(), qz.clone()], x));
        let c = self.emitter.bind(dtype, c);
        let d = self.emitter.bind(dtype, d);
        let part = |axis: usize, next: usize, last: usize| {
            let straight = f.add(f.mul(&x[axis], &c), f.mul(&q[axis], &d));
            let turn = f.sub(f.mul(&q[next], &x[last]), f.mul(&q[last], &x[next]));
            let turn = f.mul(&f.mul(&turn, qw), &two);
            if is_inverse { f.sub(straight, turn) } else { f.add(straight, turn) }
        };
        vec![part(0, 1, 2), part(1, 2, 0), part(2, 0, 1)]
    }

    fn axis_rotation(&mut self, dtype: Dtype, axis: &[Expr], angle: &Expr) -> Vec<Expr> {
        let f = Formula(dtype);
        let half = f.mul(angle, &f.number(0.5));
        let half = self.emitter.bind(dtype, half);
        let sine = f.apply(UnaryOp::Sin, half.clone());
        let sine = self.emitter.bind(dtype, sine);
        let mut parts: Vec<_> = axis.iter().map(|part| f.mul(part, &sine)).collect();
        parts.push(f.apply(UnaryOp::Cos, half));
        parts
    }

    /// `quat_to_axis_angle` of a quaternion.
    pub(crate) fn quat_to_axis_angle(&mut self, arguments: &[Data]) -> Option<Value> {
        let [q @ Data { ty: Type::Quat(dtype), .. }] = arguments else { return None };
        let (axis, angle) = self.axis_angle(*dtype, q);
        let axis = Data::new(Type::Vector(*dtype, 3), axis);
        Some(Value::Tuple(vec![axis.into(), Data::scalar(*dtype, angle).into()]))
    }

    fn axis_angle(&mut self, dtype: Dtype, q: &Data) -> (Vec<Expr>, Expr) {
        let f = Formula(dtype);
        let v = Data::new(Type::Vector(dtype, 3), q.parts[..3].to_vec());
        let unit = self.normalized(&v);
        let unit = self.bind(unit);
        let is_negative = scalars::lt(dtype, q.parts[3].clone(), f.number(0.0));
        let axis = unit
            .parts
            .into_iter()
            .map(|part| scalars::select(is_negative.clone(), scalars::neg(dtype, part.clone()), part));
        let cosine = f.apply(UnaryOp::Abs, q.parts[3].clone());
        let angle = scalars::binary(BinaryOp::Atan2, dtype, length(dtype, &v.parts), cosine);
        (axis.collect(), f.mul(&f.number(2.0), &angle))
    }

    fn euler_rotation(&mut self, dtype: Dtype, [roll, pitch, yaw]: [Expr; 3]) -> Data {
        let f = Formula(dtype);
        let mut half = |angle: &Expr, op| {
            let value = f.apply(op, f.mul(angle, &f.number(0.5)));
            self.emitter.bind(dtype, value)
        };
        let cy = half(&yaw, UnaryOp::Cos);
        let sy = half(&yaw, UnaryOp::Sin);
        let cr = half(&roll, UnaryOp::Cos);
        let sr = half(&roll, UnaryOp::Sin);
        let cp = half(&pitch, UnaryOp::Cos);
        let sp = half(&pitch, UnaryOp::Sin);
        let product = |a: &Expr, b: &Expr, c: &Expr| f.mul(&f.mul(a, b), c);
        let parts = vec![
            f.sub(product(&cy, &sr, &cp), product(&sy, &cr, &sp)),
            f.add(product(&cy, &cr, &sp), product(&sy, &sr, &cp)),
            f.sub(product(&sy, &cr, &cp), product(&cy, &sr, &sp)),
            f.add(product(&cy, &cr, &cp), product(&sy, &sr, &sp)),
        ];
        Data::new(Type::Quat(dtype), parts)
    }

    fn normalized_quat(&mut self, dtype: Dtype, q: &Data) -> Data {
        let f = Formula(dtype);
        let length = self.emitter.temp(dtype, length(dtype, &q.parts));
        let is_positive = self.emitter.temp(Dtype::Bool, scalars::lt(dtype, f.number(0.0), length.clone()));
        let factor = self.emitter.temp(dtype, scalars::div(dtype, f.number(1.0), length));
        let parts = q.parts.iter().enumerate().map(|(nth, part)| {
            let neutral = f.number(if nth == 3 { 1.0 } else { 0.0 });
            scalars::select(is_positive.clone(), f.mul(part, &factor), neutral)
        });
        Data::new(q.ty.clone(), parts.collect())
    }

    /// The rotation as a matrix, whose columns are the rotated axes.
    fn quat_to_matrix(&mut self, dtype: Dtype, q: &Data) -> Data {
        let columns: Vec<_> = (0..3)
            .map(|axis| {
                let unit: Vec<_> = (0..3).map(|nth| literal(dtype, if nth == axis { 1.0 } else { 0.0 })).collect();
                self.rotated(dtype, &q.parts, &unit, false)
            })
            .collect();
        let parts = (0..9).map(|nth| columns[nth % 3][nth / 3].clone()).collect();
        Data::new(Type::Matrix(dtype, 3, 3), parts)
    }

    /// The rotation of a matrix, by the greatest of the trace and the diagonal.
    fn quat_from_matrix(&mut self, dtype: Dtype, m: &Data, size: usize) -> Data {
        let f = Formula(dtype);
        let at = |row: usize, column: usize| &m.parts[row * size + column];
        let difference = |a: (usize, usize), b: (usize, usize)| f.sub(at(a.0, a.1).clone(), at(b.0, b.1).clone());
        let sum = |a: (usize, usize), b: (usize, usize)| f.add(at(a.0, a.1).clone(), at(b.0, b.1).clone());
        let [x, y, z] = [((2, 1), (1, 2)), ((0, 2), (2, 0)), ((1, 0), (0, 1))].map(|(a, b)| difference(a, b));
        let [xy, yz, zx] = [((0, 1), (1, 0)), ((1, 2), (2, 1)), ((2, 0), (0, 2))].map(|(a, b)| sum(a, b));
        let trace = scalars::sum(dtype, (0..3).map(|nth| at(nth, nth).clone()));
        let trace = self.emitter.bind(dtype, trace);
        let squared = |axis: usize, p: usize, q: usize| {
            f.add(f.sub(at(axis, axis).clone(), f.add(at(p, p).clone(), at(q, q).clone())), f.number(1.0))
        };
        let is_traced = scalars::le(dtype, f.number(0.0), trace.clone());
        let is_second = scalars::lt(dtype, at(0, 0).clone(), at(1, 1).clone());
        let is_third = scalars::select(
            is_second.clone(),
            scalars::lt(dtype, at(1, 1).clone(), at(2, 2).clone()),
            scalars::lt(dtype, at(0, 0).clone(), at(2, 2).clone()),
        );
        let [is_traced, is_second, is_third] =
            [is_traced, is_second, is_third].map(|condition| self.emitter.bind(Dtype::Bool, condition));
        let choose = |traced: Expr, first: Expr, second: Expr, third: Expr| {
            let by_axis = scalars::select(is_second.clone(), second, first);
            scalars::select(is_traced.clone(), traced, scalars::select(is_third.clone(), third, by_axis))
        };
        let square = choose(f.add(trace.clone(), f.number(1.0)), squared(0, 1, 2), squared(1, 2, 0), squared(2, 0, 1));
        let root = self.emitter.bind(dtype, f.apply(UnaryOp::Sqrt, square));
        let half = self.emitter.bind(dtype, f.mul(&f.number(0.5), &root));
        let factor = self.emitter.bind(dtype, scalars::div(dtype, f.number(0.5), root));
        let scaled = |part: &Expr| f.mul(part, &factor);
        let parts = vec![
            choose(scaled(&x), half.clone(), scaled(&xy), scaled(&zx)),
            choose(scaled(&y), scaled(&xy), half.clone(), scaled(&yz)),
            choose(scaled(&z), scaled(&zx), scaled(&yz), half.clone()),
            choose(half, scaled(&x), scaled(&y), scaled(&z)),
        ];
        let quat = self.bind(Data::new(Type::Quat(dtype), parts));
        self.normalized_quat(dtype, &quat)
    }
}

fn conjugate(dtype: Dtype, q: &[Expr]) -> Vec<Expr> {
    q.iter()
        .enumerate()
        .map(|(nth, part)| if nth < 3 { scalars::neg(dtype, part.clone()) } else { part.clone() })
        .collect()
}

fn four(parts: &[Expr]) -> [&Expr; 4] {
    [&parts[0], &parts[1], &parts[2], &parts[3]]
}
