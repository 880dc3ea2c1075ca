// Ids, payloads and filters of points.

import { malformed } from "./errors.js";
import {
    type ConditionSchema,
    type FilterSchema,
    type Payload as WirePayload,
    type PayloadColumnSchema,
    type PayloadColumnsSchema,
    type PointIds as WireIds,
    type PointIdsSchema,
    type Value as WireValue,
    type ValueSchema,
} from "./generated/accelerd/v1/similarity_pb.js";
import type { Init } from "./init.js";
import { arrayOf, bytesOf } from "./tensor.js";

/** The id of a point: a number from 0 to 2^64 - 1, or a UUID. All ids of a collection have the type of its first points. */
export type Id = number | bigint | string;
/** Ids of points. */
export type Ids = readonly Id[] | BigUint64Array;
/** The value of a payload's field. A number without a fraction is an integer; integers and doubles compare by value. */
export type Value = string | number | bigint | boolean;
/** Metadata of a point. */
export type Payload = Readonly<Record<string, Value>>;
/** Bounds of a range of numbers. */
export interface Range {
    readonly gt?: number | bigint;
    readonly gte?: number | bigint;
    readonly lt?: number | bigint;
    readonly lte?: number | bigint;
}
/** Conditions by payload field: a value, a list of values of which one is equal, or a range. */
export type Where = Readonly<Record<string, Value | readonly Value[] | Range>>;

/** Ids of points, all numbers or all UUIDs. */
export class PointIds {
    readonly #numbers: BigUint64Array | undefined;
    readonly #uuids: readonly string[];

    constructor(ids: Ids) {
        const isUuids = !(ids instanceof BigUint64Array) && typeof ids[0] === "string";
        this.#uuids = isUuids ? (ids as Id[]).map(uuid) : [];
        this.#numbers = isUuids ? undefined : ids instanceof BigUint64Array ? ids : packed(ids);
    }

    get length(): number {
        return this.#numbers?.length ?? this.#uuids.length;
    }

    /** The message of a range of the ids. */
    message(start = 0, stop = this.length): Init<typeof PointIdsSchema> {
        if (this.#numbers === undefined) return { uuids: this.#uuids.slice(start, stop) };
        return { packedNumbers: bytesOf(this.#numbers.subarray(start, stop)) };
    }

    /** The message of all ids in the form that filters need. */
    unpacked(): Init<typeof PointIdsSchema> {
        return this.#numbers === undefined ? { uuids: [...this.#uuids] } : { numbers: [...this.#numbers] };
    }

    /** Throws for a duplicate id, as the daemon does in a single call. */
    checkUnique(): void {
        const ids: ArrayLike<Id> = this.#numbers ?? this.#uuids;
        const seen = new Set<Id>();
        for (let at = 0; at < ids.length; at += 1) {
            const id = ids[at] as Id;
            if (seen.has(id)) throw new RangeError(`ids: duplicate id ${id}`);
            seen.add(id);
        }
    }
}

function uuid(id: Id, at: number): string {
    if (typeof id === "string") return id;
    throw new TypeError(`ids[${at}]: expected a UUID like the ids before it, got ${id}`);
}

function packed(ids: readonly Id[]): BigUint64Array {
    const numbers = new BigUint64Array(ids.length);
    const halves = new Uint32Array(numbers.buffer);
    ids.forEach((id, at) => {
        if (typeof id === "number" && Number.isSafeInteger(id) && id >= 0) {
            // Faster than a bigint of each.
            halves[2 * at] = id;
            halves[2 * at + 1] = id / 2 ** 32;
        } else if (typeof id === "bigint" && id >= 0n && id < 1n << 64n) {
            numbers[at] = id;
        } else {
            throw new RangeError(`ids[${at}]: expected an integer from 0 to 2^64 - 1 like the ids before it, got ${String(id)}`);
        }
    });
    return numbers;
}

/** Returns an integer as a number if that is exact, or else as a bigint. */
export function integer(value: bigint): number | bigint {
    return BigInt.asIntN(54, value) === value ? Number(value) : value;
}

/** Decodes the ids of a response. */
export function readIds(ids: WireIds | undefined): Id[] {
    if (ids === undefined) return [];
    if (ids.packedNumbers.length > 0) return Array.from(arrayOf("u64", ids.packedNumbers), integer);
    if (ids.packedUuids.length % 16 !== 0) throw malformed(`UUIDs of ${ids.packedUuids.length} bytes`);
    if (ids.packedUuids.length > 0) return unpackUuids(ids.packedUuids);
    return ids.numbers.length > 0 ? ids.numbers.map(integer) : ids.uuids;
}

function unpackUuids(bytes: Uint8Array): string[] {
    const digits = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
    return Array.from({ length: bytes.length / 16 }, (_, at) =>
        digits.slice(32 * at, 32 * at + 32).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-"),
    );
}

type Kind = "strings" | "ints" | "doubles" | "bools";

function kindOf(value: Value, what: string): Kind {
    switch (typeof value) {
        case "string":
            return "strings";
        case "boolean":
            return "bools";
        case "bigint":
            return "ints";
        case "number":
            // -0 is a double, as are numbers that are not exact integers.
            return Number.isSafeInteger(value) && !Object.is(value, -0) ? "ints" : "doubles";
        default:
            throw new TypeError(`${what}: expected a string, a number, a bigint or a boolean, got ${typeof value}`);
    }
}

function wireValue(value: Value, what: string): Init<typeof ValueSchema> {
    const kind = kindOf(value, what);
    if (kind === "ints") return { kind: { case: "intValue", value: BigInt(value) } };
    if (kind === "doubles") return { kind: { case: "doubleValue", value: value as number } };
    if (kind === "bools") return { kind: { case: "boolValue", value: value as boolean } };
    return { kind: { case: "stringValue", value: value as string } };
}

/** A column in the making: the points that have the field, and its values of one type. */
interface Column {
    readonly name: string;
    readonly kind: Kind;
    readonly points: number[];
    readonly values: Value[];
}

/** Returns the payloads of points as columns, which are much cheaper than a message for each point. */
export function payloadColumns(payloads: readonly Payload[], first: number): Init<typeof PayloadColumnsSchema> {
    const columns = new Map<string, Column>();
    payloads.forEach((payload, point) => {
        for (const [name, value] of Object.entries(payload)) {
            if (value === undefined) continue;
            const kind = kindOf(value, `payloads[${first + point}].${name}`);
            const key = `${kind} ${name}`;
            const column = columns.get(key) ?? { name, kind, points: [], values: [] };
            columns.set(key, column);
            column.points.push(point);
            column.values.push(value);
        }
    });
    return { columns: Array.from(columns.values(), (column) => wireColumn(column, payloads.length)) };
}

function wireColumn({ name, kind, points, values }: Column, count: number): Init<typeof PayloadColumnSchema> {
    const presence = new Uint8Array(points.length === count ? 0 : Math.ceil(count / 8));
    if (presence.length > 0) for (const point of points) presence[point >> 3]! |= 1 << (point & 7);
    return { name, presence, values: wireValues(kind, values) };
}

function wireValues(kind: Kind, values: readonly Value[]): NonNullable<Init<typeof PayloadColumnSchema>["values"]> {
    switch (kind) {
        case "ints":
            return { case: "ints", value: bytesOf(BigInt64Array.from(values as (number | bigint)[], BigInt)) };
        case "doubles":
            return { case: "doubles", value: bytesOf(Float64Array.from(values as number[])) };
        case "bools":
            return { case: "bools", value: Uint8Array.from(values as boolean[], Number) };
        case "strings":
            return { case: "strings", value: stringColumn(values as string[]) };
    }
}

function stringColumn(texts: readonly string[]): { offsets: Uint8Array; data: Uint8Array } {
    const encoder = new TextEncoder();
    const encoded = texts.map((text) => encoder.encode(text));
    const offsets = new Uint32Array(texts.length + 1);
    encoded.forEach((bytes, at) => (offsets[at + 1] = offsets[at]! + bytes.length));
    const data = new Uint8Array(offsets[texts.length]!);
    encoded.forEach((bytes, at) => data.set(bytes, offsets[at]));
    return { offsets: bytesOf(offsets), data };
}

/** Decodes a payload. */
export function readPayload(payload: WirePayload | undefined): Record<string, Value> {
    return Object.fromEntries(Object.entries(payload?.fields ?? {}).map(([name, value]) => [name, readValue(name, value)]));
}

function readValue(name: string, { kind }: WireValue): Value {
    if (kind.case === undefined) throw malformed(`the field ${name} has no value`);
    return kind.case === "intValue" ? integer(kind.value) : kind.value;
}

/** Which points a call is about. */
export interface Filter {
    /** Conditions that points must meet. */
    readonly where?: Where | undefined;
    /** Conditions that points must not meet. */
    readonly whereNot?: Where | undefined;
}

/** Returns the filter of conditions and ids; undefined if there are none. A list of no ids matches no point. */
export function wireFilter({ where = {}, whereNot = {} }: Filter, ids?: Ids): Init<typeof FilterSchema> | undefined {
    const must = conditions("where", where);
    const mustNot = conditions("whereNot", whereNot);
    if (must.length === 0 && mustNot.length === 0 && ids === undefined) return undefined;
    return { must, mustNot, ...(ids === undefined ? {} : { ids: new PointIds(ids).unpacked() }) };
}

function conditions(what: string, where: Where): Init<typeof ConditionSchema>[] {
    return Object.entries(where).map(([field, test]) => ({ field, test: condition(`${what}.${field}`, test) }));
}

function condition(what: string, test: Where[string]): NonNullable<Init<typeof ConditionSchema>["test"]> {
    if (Array.isArray(test)) return { case: "anyOf", value: { values: test.map((value: Value) => wireValue(value, what)) } };
    if (typeof test !== "object") return { case: "equals", value: wireValue(test, what) };
    const bounds = Object.entries(test as Range).map(([bound, value]: [string, number | bigint]) => {
        if (["gt", "gte", "lt", "lte"].includes(bound)) return [bound, wireValue(value, what)] as const;
        throw new RangeError(`${what}: expected bounds gt, gte, lt or lte, got ${bound}`);
    });
    return { case: "numberRange", value: Object.fromEntries(bounds) };
}
