// Tensors: a shape, an element type, and elements in a typed array, which is the memory of the message where that is aligned.

import { malformed } from "./errors.js";
import { Dtype as WireDtype, type Tensor as WireTensor, type TensorSchema } from "./generated/accelerd/v1/tensor_pb.js";
import type { Init } from "./init.js";

/** The array of each element type. Numbers of 16 bits are their bits, which `toFloat32` converts. */
export interface Arrays {
    f16: Uint16Array;
    bf16: Uint16Array;
    f32: Float32Array;
    f64: Float64Array;
    i8: Int8Array;
    i16: Int16Array;
    i32: Int32Array;
    i64: BigInt64Array;
    u8: Uint8Array;
    u16: Uint16Array;
    u32: Uint32Array;
    u64: BigUint64Array;
    /** 1 for true, 0 for false. */
    bool: Uint8Array;
}

/** An element type. */
export type Dtype = keyof Arrays;
/** Any array of elements. */
export type ElementArray = Arrays[Dtype];
/** Numbers of any depth, such as rows of a matrix. */
export type Nested = number | bigint | boolean | readonly Nested[];

interface Kind {
    readonly wire: WireDtype;
    readonly array: new (buffer: ArrayBufferLike, offset: number, length: number) => ElementArray;
    readonly size: number;
}

const KINDS: Record<Dtype, Kind> = {
    f16: { wire: WireDtype.F16, array: Uint16Array, size: 2 },
    bf16: { wire: WireDtype.BF16, array: Uint16Array, size: 2 },
    f32: { wire: WireDtype.F32, array: Float32Array, size: 4 },
    f64: { wire: WireDtype.F64, array: Float64Array, size: 8 },
    i8: { wire: WireDtype.I8, array: Int8Array, size: 1 },
    i16: { wire: WireDtype.I16, array: Int16Array, size: 2 },
    i32: { wire: WireDtype.I32, array: Int32Array, size: 4 },
    i64: { wire: WireDtype.I64, array: BigInt64Array, size: 8 },
    u8: { wire: WireDtype.U8, array: Uint8Array, size: 1 },
    u16: { wire: WireDtype.U16, array: Uint16Array, size: 2 },
    u32: { wire: WireDtype.U32, array: Uint32Array, size: 4 },
    u64: { wire: WireDtype.U64, array: BigUint64Array, size: 8 },
    bool: { wire: WireDtype.BOOL, array: Uint8Array, size: 1 },
};
const DTYPES = new Map(Object.entries(KINDS).map(([dtype, { wire }]) => [wire, dtype as Dtype]));

if (new Uint8Array(Uint16Array.of(1).buffer)[0] !== 1) throw new Error("accelerd: expected a machine with little-endian numbers");

/** Returns the number of an element type in the protocol. */
export function wireDtype(dtype: Dtype): WireDtype {
    if (!Object.hasOwn(KINDS, dtype))
        throw new RangeError(`dtype: expected one of ${Object.keys(KINDS).join(", ")}, got "${String(dtype)}"`);
    return KINDS[dtype].wire;
}

/** Returns the element type of a number of the protocol. */
export function dtypeOf(wire: WireDtype): Dtype {
    const dtype = DTYPES.get(wire);
    if (dtype === undefined) throw malformed(`unknown element type ${wire}`);
    return dtype;
}

/** A tensor in the client's memory. Its elements are in row-major order. */
export class Tensor<D extends Dtype = Dtype> {
    /** Makes a tensor of elements, without a copy. */
    constructor(
        readonly dtype: D,
        readonly shape: readonly number[],
        readonly data: Arrays[D],
    ) {
        wireDtype(dtype);
        const expected = shape.reduce((product, extent) => product * extent, 1);
        if (shape.some((extent) => !Number.isSafeInteger(extent) || extent < 0) || data.length !== expected) {
            throw new RangeError(`tensor: expected ${expected} elements for the shape [${shape.join(", ")}], got ${data.length}`);
        }
        if (!(data instanceof KINDS[dtype].array)) {
            throw new TypeError(`tensor: expected a ${KINDS[dtype].array.name} for ${dtype}, got ${(data as object).constructor.name}`);
        }
    }

    /**
     * Makes a tensor of an array or of nested lists.
     *
     * The element type of an array is that of its class, without a copy; a Uint16Array is u16. Lists of numbers are f32, of bigint i64 and
     * of booleans bool, unless `dtype` says otherwise. The shape of an array is [length], unless `shape` says otherwise.
     */
    static from(values: ElementArray, shape?: readonly number[]): Tensor;
    static from<D extends Dtype>(values: Nested, dtype: D): Tensor<D>;
    static from(values: Nested): Tensor;
    static from(values: ElementArray | Nested, option?: readonly number[] | Dtype): Tensor {
        if (ArrayBuffer.isView(values)) {
            return new Tensor(arrayDtype(values), Array.isArray(option) ? option : [values.length], values);
        }
        return nested(values as Nested, typeof option === "string" ? option : undefined);
    }

    /** Number of elements. */
    get size(): number {
        return this.data.length;
    }

    /** The elements of a row: of an index of the first dimension. Without a copy. */
    row(index: number): Arrays[D] {
        const [count = 0] = this.shape;
        if (!Number.isInteger(index) || index < 0 || index >= count) throw new RangeError(`row: expected 0 to ${count - 1}, got ${index}`);
        const length = this.data.length / count;
        return this.data.subarray(index * length, (index + 1) * length) as Arrays[D];
    }

    /** The rows of a matrix, without a copy. */
    rows(): Arrays[D][] {
        return Array.from({ length: this.shape[0] ?? 0 }, (_, index) => this.row(index));
    }

    /** The elements of numbers as a Float32Array: without a copy of f32, converted of other types. */
    toFloat32(): Float32Array {
        if (this.data instanceof Float32Array) return this.data;
        if (this.dtype === "f16") return Float32Array.from(this.data as Uint16Array, fromF16);
        if (this.dtype === "bf16") return fromBf16(this.data as Uint16Array);
        return Float32Array.from(this.data as Iterable<number | bigint>, Number);
    }

    /** The elements as nested lists; a scalar is one element. Those of bool are booleans, and of 16-bit floats numbers. */
    toArray(): Nested {
        const isHalf = this.dtype === "f16" || this.dtype === "bf16";
        const elements: Iterable<number | bigint> = isHalf ? this.toFloat32() : this.data;
        let values: Nested[] = this.dtype === "bool" ? Array.from(elements, (one) => one !== 0) : [...elements];
        for (const extent of this.shape.slice(1).reverse()) values = chunks(values, extent, this.shape);
        return this.shape.length === 0 ? (values[0] ?? 0) : values;
    }
}

function chunks(values: Nested[], extent: number, shape: readonly number[]): Nested[] {
    if (extent === 0) return Array.from({ length: shape[0] ?? 0 }, () => []);
    return Array.from({ length: values.length / extent }, (_, at) => values.slice(at * extent, (at + 1) * extent));
}

function arrayDtype(values: ElementArray): Dtype {
    const dtype = ARRAY_DTYPES.find(([array]) => values instanceof array)?.[1];
    if (dtype === undefined) throw new TypeError(`tensor: expected a typed array, got ${(values as object).constructor.name}`);
    return dtype;
}

const ARRAY_DTYPES: [new (length: number) => ElementArray, Dtype][] = [
    [Float32Array, "f32"],
    [Float64Array, "f64"],
    [Int8Array, "i8"],
    [Int16Array, "i16"],
    [Int32Array, "i32"],
    [BigInt64Array, "i64"],
    [Uint8Array, "u8"],
    [Uint16Array, "u16"],
    [Uint32Array, "u32"],
    [BigUint64Array, "u64"],
];

function nested(values: Nested, given: Dtype | undefined): Tensor {
    const shape: number[] = [];
    for (let level: Nested | undefined = values; Array.isArray(level); level = level[0]) shape.push(level.length);
    const flat: (number | bigint | boolean)[] = [];
    flatten(values, shape, 0, flat);
    const dtype = given ?? { bigint: "i64" as const, boolean: "bool" as const }[typeof flat[0] as string] ?? "f32";
    return new Tensor(dtype, shape, elementsOf(flat, dtype));
}

function flatten(values: Nested, shape: readonly number[], depth: number, flat: (number | bigint | boolean)[]): void {
    const expected = shape[depth];
    if (Array.isArray(values) ? values.length !== expected : expected !== undefined) {
        throw new RangeError(`tensor: expected lists of equal lengths, as in the shape [${shape.join(", ")}]`);
    }
    if (Array.isArray(values)) for (const value of values) flatten(value, shape, depth + 1, flat);
    else flat.push(values as number | bigint | boolean);
}

/** Returns an array of numbers. Numbers that the type cannot represent are refused, except that floats are rounded. */
export function elementsOf(values: readonly (number | bigint | boolean)[], dtype: Dtype): ElementArray {
    const { size, array } = KINDS[dtype];
    if (dtype === "f16" || dtype === "bf16") throw new TypeError(`tensor: ${dtype} is made from a Uint16Array of its bits`);
    const elements = new array(new ArrayBuffer(values.length * size), 0, values.length);
    const isWide = elements instanceof BigInt64Array || elements instanceof BigUint64Array;
    values.forEach((value, at) => {
        elements[at] = isWide ? BigInt(value) : Number(value);
        const isFloat = dtype === "f32" || dtype === "f64";
        if (!isFloat && Number(elements[at]) !== Number(value)) throw new RangeError(`tensor: element ${at} is no ${dtype}: ${value}`);
    });
    return elements;
}

/** IEEE 754 binary16. */
function fromF16(bits: number): number {
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
    return sign * (exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15));
}

/** The upper half of binary32. */
function fromBf16(bits: Uint16Array): Float32Array {
    return new Float32Array(Uint32Array.from(bits, (one) => one << 16).buffer);
}

/** Returns the bytes of an array, without a copy. */
export function bytesOf(data: ArrayBufferView): Uint8Array {
    return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

/** Returns an array of bytes: without a copy if they are aligned. */
export function arrayOf<D extends Dtype>(dtype: D, bytes: Uint8Array): Arrays[D] {
    const { size, array } = KINDS[dtype];
    if (bytes.byteLength % size !== 0) throw malformed(`${bytes.byteLength} bytes of ${dtype}`);
    const aligned = bytes.byteOffset % size === 0 ? bytes : bytes.slice();
    return new array(aligned.buffer, aligned.byteOffset, bytes.byteLength / size) as Arrays[D];
}

/** Returns the message of a tensor. */
export function toWire(tensor: Tensor): Init<typeof TensorSchema> {
    return { dtype: wireDtype(tensor.dtype), shape: tensor.shape.map(BigInt), data: bytesOf(tensor.data) };
}

/** Returns the tensor of a message. */
export function fromWire(message: WireTensor | undefined): Tensor {
    if (message === undefined) throw malformed("expected a tensor");
    const dtype = dtypeOf(message.dtype);
    const shape = message.shape.map(Number);
    const data = arrayOf(dtype, message.data);
    if (data.length !== shape.reduce((product, extent) => product * extent, 1)) {
        throw malformed(`${data.length} elements of the shape [${shape.join(", ")}]`);
    }
    return new Tensor(dtype, shape, data);
}

/** Returns the tensor of a message with elements of this type. */
export function fromWireAs<D extends Dtype>(dtype: D, message: WireTensor | undefined): Tensor<D> {
    const tensor = fromWire(message);
    if (tensor.dtype !== dtype) throw malformed(`expected ${dtype}, got ${tensor.dtype}`);
    return tensor as Tensor<D>;
}

/** Rows of a matrix: a tensor of f32 with two dimensions, or a list of vectors. */
export type Rows = Tensor<"f32"> | readonly Float32Array[] | readonly (readonly number[])[];

/** Returns rows as a matrix. `what` names the argument in errors. */
export function toRows(rows: Rows, what: string): Tensor<"f32"> {
    if (rows instanceof Tensor) {
        if (rows.dtype === "f32" && rows.shape.length === 2) return rows;
        throw new RangeError(`${what}: expected f32 with two dimensions, got ${rows.dtype} [${rows.shape.join(", ")}]`);
    }
    const dimensions = rows[0]?.length ?? 0;
    const data = new Float32Array(rows.length * dimensions);
    rows.forEach((row, at) => {
        if (row.length !== dimensions) throw new RangeError(`${what}[${at}]: expected ${dimensions} numbers, got ${row.length}`);
        data.set(row, at * dimensions);
    });
    return new Tensor("f32", [rows.length, dimensions], data);
}
