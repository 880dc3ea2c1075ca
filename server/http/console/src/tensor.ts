/** Tensors of the protocol, and tensors as a person writes them. */

import { decode, encode } from "./columns";
import type { Long } from "./format";

export interface Tensor {
    dtype: string;
    shape: Long[];
    data: string;
}

export type Element = number | bigint | boolean;

const SIZES: Record<string, number> = {
    DTYPE_F16: 2,
    DTYPE_BF16: 2,
    DTYPE_F32: 4,
    DTYPE_F64: 8,
    DTYPE_I8: 1,
    DTYPE_I16: 2,
    DTYPE_I32: 4,
    DTYPE_I64: 8,
    DTYPE_U8: 1,
    DTYPE_U16: 2,
    DTYPE_U32: 4,
    DTYPE_U64: 8,
    DTYPE_BOOL: 1,
};

/** Elements of a tensor, decoded as they are read. */
export class Elements {
    private readonly view: DataView;
    readonly length: number;
    readonly shape: number[];

    constructor(readonly tensor: Tensor) {
        this.view = new DataView(decode(tensor.data).buffer);
        this.length = this.view.byteLength / (SIZES[tensor.dtype] ?? 1);
        this.shape = tensor.shape.map(Number);
    }

    at(index: number): Element {
        const size = SIZES[this.tensor.dtype] ?? 1;
        const at = index * size;
        switch (this.tensor.dtype) {
            case "DTYPE_F16":
                return half(this.view.getUint16(at, true));
            case "DTYPE_BF16":
                return bf16(this.view.getUint16(at, true));
            case "DTYPE_F32":
                return this.view.getFloat32(at, true);
            case "DTYPE_F64":
                return this.view.getFloat64(at, true);
            case "DTYPE_I8":
                return this.view.getInt8(at);
            case "DTYPE_I16":
                return this.view.getInt16(at, true);
            case "DTYPE_I32":
                return this.view.getInt32(at, true);
            case "DTYPE_I64":
                return this.view.getBigInt64(at, true);
            case "DTYPE_U16":
                return this.view.getUint16(at, true);
            case "DTYPE_U32":
                return this.view.getUint32(at, true);
            case "DTYPE_U64":
                return this.view.getBigUint64(at, true);
            case "DTYPE_BOOL":
                return this.view.getUint8(at) !== 0;
            default:
                return this.view.getUint8(at);
        }
    }
}

function half(bits: number): number {
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    const sign = bits >> 15 ? -1 : 1;
    if (exponent === 31) return fraction ? Number.NaN : sign * Infinity;
    return sign * (exponent ? 2 ** (exponent - 25) * (1024 + fraction) : 2 ** -24 * fraction);
}

function bf16(bits: number): number {
    const view = new DataView(new ArrayBuffer(4));
    view.setUint32(0, bits << 16);
    return view.getFloat32(0);
}

/** The bits of the nearest number, to even. */
function bf16Bits(value: number): number {
    const view = new DataView(new ArrayBuffer(4));
    view.setFloat32(0, value);
    const bits = view.getUint32(0);
    return Number.isNaN(value) ? 0x7fc0 : (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}

/** Of browsers since 2025. */
interface Float16View extends DataView {
    setFloat16(at: number, value: number, isLittleEndian: boolean): void;
}

function write(view: DataView, dtype: string, at: number, value: Element | string): void {
    const number = Number(value);
    switch (dtype) {
        case "DTYPE_BF16":
            return view.setUint16(at, bf16Bits(number), true);
        case "DTYPE_F32":
            return view.setFloat32(at, number, true);
        case "DTYPE_F64":
            return view.setFloat64(at, number, true);
        case "DTYPE_I8":
            return view.setInt8(at, number);
        case "DTYPE_I16":
            return view.setInt16(at, number, true);
        case "DTYPE_I32":
            return view.setInt32(at, number, true);
        case "DTYPE_I64":
            return view.setBigInt64(at, BigInt(value), true);
        case "DTYPE_U8":
            return view.setUint8(at, number);
        case "DTYPE_U16":
            return view.setUint16(at, number, true);
        case "DTYPE_U32":
            return view.setUint32(at, number, true);
        case "DTYPE_U64":
            return view.setBigUint64(at, BigInt(value), true);
        case "DTYPE_BOOL":
            return view.setUint8(at, value === "false" || !value ? 0 : 1);
        case "DTYPE_F16":
            return (view as Float16View).setFloat16(at, number, true);
        default:
            throw new Error(`unknown type ${dtype}`);
    }
}

/** A tensor of elements in row-major order. */
export function tensor(dtype: string, shape: number[], elements: (Element | string)[]): Tensor {
    const size = SIZES[dtype];
    if (!size) throw new Error(`unknown type ${dtype}`);
    const view = new DataView(new ArrayBuffer(elements.length * size));
    elements.forEach((element, index) => write(view, dtype, index * size, element));
    return { dtype, shape: shape.map(String), data: encode(new Uint8Array(view.buffer)) };
}

const MOST = 1 << 22;

/**
 * A tensor as it is written: a number, nested lists, or one of `zeros(n, m)`, `ones(n)`, `arange(n)` and `random(n, m)`. Its random
 * numbers are the same each time.
 */
export function written(text: string, dtype: string): Tensor {
    const made = /^\s*(zeros|ones|arange|random)\s*\(([\d\s,]*)\)\s*$/.exec(text);
    if (!made) return nested(JSON.parse(text), dtype, text);
    const shape = made[2]!
        .split(",")
        .filter((part) => part.trim())
        .map(Number);
    const length = shape.reduce((product, extent) => product * extent, 1);
    if (length > MOST) throw new Error(`expected at most ${MOST} elements, got ${length}`);
    return tensor(dtype, shape, fill(made[1]!, length, /_F|BF/.test(dtype)));
}

function fill(name: string, length: number, floating: boolean): number[] {
    let state = 1;
    const random = () => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return floating ? state / 2 ** 32 : state >>> 25;
    };
    const element: Record<string, (index: number) => number> = { zeros: () => 0, ones: () => 1, arange: (index) => index, random };
    return Array.from({ length }, (_, index) => element[name]!(index));
}

/** A tensor of nested lists, which have equal lengths at each level. */
export function nested(value: unknown, dtype: string, name: string): Tensor {
    const shape: number[] = [];
    for (let inner = value; Array.isArray(inner); inner = inner[0]) shape.push(inner.length);
    const elements: (Element | string)[] = [];
    const walk = (part: unknown, depth: number) => {
        if (!Array.isArray(part)) {
            if (depth !== shape.length || !["number", "boolean", "string"].includes(typeof part)) throw new Error(`${name}: not a tensor`);
            elements.push(part as number);
        } else if (part.length !== shape[depth]) {
            throw new Error(`${name}: lists of unequal lengths`);
        } else {
            for (const one of part) walk(one, depth + 1);
        }
    };
    walk(value, 0);
    return tensor(dtype, shape, elements);
}

/** The name of an element type: `f32`. */
export function dtypeName(dtype: string): string {
    return dtype.replace("DTYPE_", "").toLowerCase();
}

export function shapeName(shape: Long[]): string {
    return `[${shape.join(", ")}]`;
}
