import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { create, fromBinary, toJson } from "@bufbuild/protobuf";
import {
    FilterSchema,
    PayloadColumnsSchema,
    PayloadSchema,
    PointIdsSchema,
    UpsertStreamRequestSchema,
} from "../src/generated/accelerd/v1/similarity_pb.js";
import { type Ids, integer, PointIds, payloadColumns, readIds, readPayload, wireFilter } from "../src/payload.js";
import { Tensor, toWire } from "../src/tensor.js";
import { encode, type UpsertInit } from "../src/upsert.js";

const BIG = 2n ** 64n - 1n;
const UUID = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";

describe("ids", () => {
    test("are packed numbers, or UUIDs", () => {
        const roundTrip = (ids: Ids) => readIds(create(PointIdsSchema, new PointIds(ids).message()));
        assert.deepEqual(roundTrip([0, 2 ** 40, BIG]), [0, 2 ** 40, BIG]);
        assert.deepEqual(roundTrip(BigUint64Array.of(7n)), [7]);
        assert.deepEqual(roundTrip([UUID]), [UUID]);
        const packedUuids = Uint8Array.from(UUID.replaceAll("-", "").match(/../g) ?? [], (digits) => parseInt(digits, 16));
        assert.deepEqual(readIds(create(PointIdsSchema, { packedUuids })), [UUID]);
        assert.deepEqual(new PointIds([1, 2, 3]).message(1, 2), new PointIds([2]).message());
    });

    test("that are not are refused", () => {
        for (const wrong of [-1, 1.5, NaN, 2 ** 64, 2n ** 64n, -1n])
            assert.throws(() => new PointIds([1, wrong]), /ids\[1\]: expected an integer/);
        assert.throws(() => new PointIds([UUID, 1]), /ids\[1\]: expected a UUID/);
        assert.throws(() => new PointIds([1, UUID]), /ids\[1\]: expected an integer/);
        assert.throws(() => new PointIds([3, 1, 3]).checkUnique(), /duplicate id 3/);
        assert.throws(() => new PointIds([UUID, UUID]).checkUnique(), /duplicate id 6ba7/);
    });

    test("are numbers where that is exact", () => {
        assert.deepEqual([2n ** 53n - 1n, 2n ** 53n, -(2n ** 53n)].map(integer), [2 ** 53 - 1, 2n ** 53n, -(2 ** 53)]);
    });
});

describe("payloads", () => {
    test("become a column for each type of each field", () => {
        const wire = payloadColumns([{ path: "é", line: 3, x: 0.5 }, { path: "b", line: 2.5, ok: true }, { line: 2n ** 60n }], 0);
        const columns = Object.fromEntries(
            create(PayloadColumnsSchema, wire).columns.map((column) => [`${column.name} ${column.values.case}`, column]),
        );
        assert.deepEqual(Object.keys(columns).sort(), ["line doubles", "line ints", "ok bools", "path strings", "x doubles"]);
        const { presence, values } = columns["line ints"]!;
        assert.deepEqual([...presence], [0b101]);
        assert.deepEqual(values.value, new Uint8Array(BigInt64Array.of(3n, 2n ** 60n).buffer));
        assert.deepEqual([...columns["x doubles"]!.presence], [0b001]);
        const text = columns["path strings"]!.values;
        assert.ok(text.case === "strings");
        assert.deepEqual(
            [new TextDecoder().decode(text.value.data), text.value.offsets],
            ["éb", new Uint8Array(Uint32Array.of(0, 2, 3).buffer)],
        );
    });

    test("that all points have need no bitmap", () => {
        assert.deepEqual([...create(PayloadColumnsSchema, payloadColumns([{ a: 1 }, { a: 2 }], 0)).columns[0]!.presence], []);
    });

    test("have values of four types", () => {
        assert.throws(() => payloadColumns([{ a: null as unknown as string }], 4), /payloads\[4\]\.a: expected a string/);
        const payload = create(PayloadSchema, {
            fields: { a: { kind: { case: "intValue", value: 5n } }, b: { kind: { case: "boolValue", value: true } } },
        });
        assert.deepEqual(readPayload(payload), { a: 5, b: true });
    });
});

test("conditions are values, lists and ranges", () => {
    const filter = create(
        FilterSchema,
        wireFilter({ where: { path: ["a", "b"], line: { gte: 0, lt: 2n ** 60n } }, whereNot: { ok: true } }, [1])!,
    );
    assert.deepEqual(
        filter.must.map(({ field, test }) => [field, test.case]),
        [
            ["path", "anyOf"],
            ["line", "numberRange"],
        ],
    );
    const range = filter.must[1]!.test;
    assert.ok(range.case === "numberRange");
    assert.deepEqual([range.value.gte?.kind.value, range.value.lt?.kind.value, range.value.gt], [0n, 2n ** 60n, undefined]);
    assert.deepEqual([filter.mustNot[0]!.test.case, filter.ids?.numbers], ["equals", [1n]]);
    assert.equal(wireFilter({}), undefined);
    assert.deepEqual(wireFilter({}, [])?.ids, { numbers: [] });
    assert.throws(() => wireFilter({ where: { line: { min: 1 } as object } }), /where.line: expected bounds gt, gte, lt or lte, got min/);
});

describe("a message of a bulk write", () => {
    const vectors = toWire(
        Tensor.from([
            [1, 2],
            [3, 4],
        ]),
    );
    const common = {
        collection: "c",
        ids: new PointIds([1, 2]).message(),
        payloadColumns: payloadColumns([{ a: 1 }, { a: 2 }], 0),
        promptName: "p",
    };
    const decoded = (sequence: number, upsert: UpsertInit) => {
        const bytes = Buffer.concat(encode(sequence, upsert));
        const made = create(UpsertStreamRequestSchema, { sequence: BigInt(sequence), upsert });
        return [toJson(UpsertStreamRequestSchema, fromBinary(UpsertStreamRequestSchema, bytes)), toJson(UpsertStreamRequestSchema, made)];
    };

    test("is what the generated code would make", () => {
        for (const points of [
            { case: "vectors" as const, value: vectors },
            { case: "texts" as const, value: { values: ["a", "b"] } },
        ]) {
            for (const sequence of [0, 300]) {
                const [found, expected] = decoded(sequence, { ...common, points });
                assert.deepEqual(found, expected);
            }
        }
    });

    test("has the caller's vectors, without a copy", () => {
        const chunks = encode(0, { ...common, points: { case: "vectors", value: vectors } });
        assert.ok(chunks.includes(vectors.data!));
    });
});
