import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { type Tensor as WireTensor, Dtype as WireDtype, TensorSchema } from "../src/generated/accelerd/v1/tensor_pb.js";
import { arrayOf, bytesOf, type Dtype, fromWire, Tensor, toRows, toWire } from "../src/tensor.js";

const ARRAYS: Record<Dtype, Tensor["data"]> = {
    f16: Uint16Array.of(0x3c00, 0xc000),
    bf16: Uint16Array.of(0x3f80, 0xc000),
    f32: Float32Array.of(1, -2),
    f64: Float64Array.of(1, -2),
    i8: Int8Array.of(1, -2),
    i16: Int16Array.of(1, -2),
    i32: Int32Array.of(1, -2),
    i64: BigInt64Array.of(1n, -2n),
    u8: Uint8Array.of(1, 2),
    u16: Uint16Array.of(1, 2),
    u32: Uint32Array.of(1, 2),
    u64: BigUint64Array.of(1n, 2n),
    bool: Uint8Array.of(1, 0),
};

function received(tensor: Tensor): WireTensor {
    return fromBinary(TensorSchema, toBinary(TensorSchema, create(TensorSchema, toWire(tensor))));
}

describe("a tensor", () => {
    test("of each type is received as it was sent", () => {
        for (const [dtype, data] of Object.entries(ARRAYS) as [Dtype, Tensor["data"]][]) {
            const back = fromWire(received(new Tensor(dtype, [2, 1], data)));
            assert.deepEqual([back.dtype, back.shape, back.data], [dtype, [2, 1], data]);
        }
    });

    test("is little-endian on the wire", () => {
        assert.deepEqual([...received(Tensor.from(Uint32Array.of(1))).data], [1, 0, 0, 0]);
    });

    test("is sent without a copy, of a part of an array too", () => {
        const data = Float32Array.of(0, 1, 2).subarray(1);
        const sent = toWire(Tensor.from(data)).data;
        assert.equal(sent?.buffer, data.buffer);
        assert.equal(sent?.byteOffset, 4);
    });

    test("is read without a copy where it is aligned, and otherwise with one", () => {
        const bytes = new Uint8Array(20);
        bytes[4] = 7;
        assert.equal(arrayOf("i32", bytes.subarray(4, 12)).buffer, bytes.buffer);
        bytes[5] = 9;
        const copied = arrayOf("i32", bytes.subarray(5, 13));
        assert.notEqual(copied.buffer, bytes.buffer);
        assert.deepEqual([...copied], [9, 0]);
    });

    test("that contradicts its shape is malformed", () => {
        const message = create(TensorSchema, { dtype: WireDtype.F32, shape: [3n], data: new Uint8Array(8) });
        assert.throws(() => fromWire(message), /2 elements of the shape \[3\]/);
        assert.throws(() => fromWire({ ...message, data: new Uint8Array(7) }), /7 bytes of f32/);
        assert.throws(() => fromWire({ ...message, dtype: 99 as WireDtype }), /unknown element type 99/);
        assert.throws(() => new Tensor("f32", [3], new Float32Array(2)), RangeError);
        assert.throws(() => new Tensor("i32", [2], new Float32Array(2) as unknown as Int32Array), TypeError);
        assert.throws(() => new Tensor("f8" as Dtype, [2], new Float32Array(2)), /expected one of f16, .*got "f8"/);
    });

    test("is made of nested lists", () => {
        const made = Tensor.from([
            [1, 2, 3],
            [4, 5, 6],
        ]);
        assert.deepEqual([made.dtype, made.shape, [...made.data]], ["f32", [2, 3], [1, 2, 3, 4, 5, 6]]);
        assert.deepEqual([Tensor.from([1n]).dtype, Tensor.from([true]).dtype, Tensor.from(3).shape], ["i64", "bool", []]);
        assert.deepEqual(Tensor.from([[1, 2]], "i64").data, BigInt64Array.of(1n, 2n));
        for (const ragged of [
            [[1, 2], [3]],
            [[1], [2, 3], []],
            [[1], 2],
            [1, [2]],
        ]) {
            assert.throws(() => Tensor.from(ragged), /lists of equal lengths/);
        }
        assert.throws(() => Tensor.from([1.5], "i32"), /element 0 is no i32: 1.5/);
        assert.throws(() => Tensor.from([300], "u8"), /element 0 is no u8: 300/);
    });

    test("is read as rows and as nested lists", () => {
        const matrix = Tensor.from(Float32Array.of(1, 2, 3, 4), [2, 2]);
        assert.equal(matrix.row(1).buffer, matrix.data.buffer);
        assert.deepEqual(
            matrix.rows().map((row) => [...(row as Float32Array)]),
            [
                [1, 2],
                [3, 4],
            ],
        );
        assert.throws(() => matrix.row(2), RangeError);
        assert.deepEqual(matrix.toArray(), [
            [1, 2],
            [3, 4],
        ]);
        assert.equal(Tensor.from(7).toArray(), 7);
        assert.deepEqual(new Tensor("bool", [2], ARRAYS.bool as Uint8Array).toArray(), [true, false]);
        assert.deepEqual(Tensor.from(new Float32Array(0), [2, 0]).toArray(), [[], []]);
    });

    test("of 16-bit floats is converted", () => {
        for (const dtype of ["f16", "bf16"] as const) {
            assert.deepEqual([...new Tensor(dtype, [2], ARRAYS[dtype] as Uint16Array).toFloat32()], [1, -2]);
        }
        const bits = Uint16Array.of(0x7c00, 0xfc00, 0x7e00, 0x0001, 0x7bff, 0x8000);
        const special = new Tensor("f16", [6], bits).toFloat32();
        assert.deepEqual([...special], [Infinity, -Infinity, NaN, 2 ** -24, 65_504, -0]);
    });
});

test("rows are a matrix of f32", () => {
    assert.deepEqual(
        toRows(
            [
                [1, 2],
                [3, 4],
            ],
            "rows",
        ).shape,
        [2, 2],
    );
    assert.deepEqual(toRows([Float32Array.of(1)], "rows").shape, [1, 1]);
    assert.throws(() => toRows([[1, 2], [3]], "rows"), /rows\[1\]: expected 2 numbers, got 1/);
    assert.throws(() => toRows(Tensor.from([1, 2]) as Tensor<"f32">, "rows"), /rows: expected f32 with two dimensions/);
    assert.deepEqual([...bytesOf(Uint16Array.of(258))], [2, 1]);
});
