// The calls of the golden suite that Node and browsers make, as functions that throw. It imports nothing of Node.

import { AccelerdError, Graph, KernelFault, type Point, Tensor } from "../src/index.js";
import type { BaseClient } from "../src/client.js";

/** tests/golden/cases.json. */
export interface Cases {
    embed: { texts: string[]; dimensions: number; first_components: number[][]; tolerance: number };
    search: {
        ids: number[];
        vectors: number[][];
        payloads: Record<string, string | number>[];
        query: number[];
        k: number;
        where: Record<string, string>;
        hits: { id: number; score: number }[];
        count_where: number;
        deleted: number[];
        hits_after_delete: { id: number; score: number }[];
        tolerance: number;
    };
    parse: {
        source: string;
        node_count: number;
        outline: { qualified_name: string; line: number }[];
        broken: string;
        diagnostic: { message: string; line: number; offset: number };
    };
    tensor: { a: number[][]; b: number[][]; softmax_of_product: number[][]; tolerance: number };
    kernel: {
        source: string;
        name: string;
        grid: number[];
        a: number;
        x: number[];
        y: number[];
        written_y: number[];
        faulting_grid: number[];
        fault: { kind: string; thread: number; line: number; index: number; extent: number };
    };
    verify: {
        actual: number[];
        expected: number[];
        atol: number;
        rtol: number;
        passed: boolean;
        failed_count: number;
        mismatch: { index: number; actual: number; expected: number };
        passing_rtol: number;
    };
    errors: ({ code: string; message: string; reason: string; fields: string[] } & (
        | { call: "find_similar"; k: number; rows: number[][] }
        | { call: "count"; collection: string }
        | { call: "embed"; texts: string[]; model: string }
    ))[];
    without_token: { code: string; reason: string };
    slow_kernel: { source: string; name: string; grid: number[]; y: number[]; deadline_ms: number; code: string };
}

/** Throws unless two values have equal JSON. */
export function equal(actual: unknown, expected: unknown): void {
    const [found, wanted] = [actual, expected].map((value) => JSON.stringify(value));
    if (found !== wanted) throw new Error(`expected ${wanted}, got ${found}`);
}

/** Throws unless numbers are within a tolerance. */
export function close(actual: Iterable<number>, expected: readonly number[], tolerance: number): void {
    const found = [...actual];
    equal(found.length, expected.length);
    expected.forEach((value, at) => {
        if (!(Math.abs(found[at]! - value) <= tolerance)) throw new Error(`expected ${value} at ${at}, got ${found[at]}`);
    });
}

/** Returns what a call rejects with. */
export async function failure(call: Promise<unknown>): Promise<unknown> {
    try {
        await call;
    } catch (failed) {
        return failed;
    }
    throw new Error("the call succeeded");
}

/** Returns the error of a failed call. */
export async function errorOf(call: Promise<unknown>): Promise<AccelerdError> {
    const failed = await failure(call);
    if (failed instanceof AccelerdError) return failed;
    throw failed;
}

export function checkVectors({ embed }: Cases, vectors: Tensor<"f32">): void {
    equal(vectors.shape, [embed.texts.length, embed.dimensions]);
    embed.first_components.forEach((row, at) => close(vectors.row(at).subarray(0, row.length), row, embed.tolerance));
}

async function search(client: BaseClient, { search: given }: Cases): Promise<void> {
    const collection = await client.createCollection(`golden-typescript-${Math.random()}`, { dimensions: given.query.length });
    try {
        const { ids, vectors, payloads, where, k } = given;
        equal(await collection.upsert({ ids, vectors, payloads }), ids.length);
        equal(await collection.count({ where }), given.count_where);
        const check = async (expected: { id: number; score: number }[]) => {
            const [hits = []] = await collection.search({ vectors: [given.query] }, { k, where });
            equal(
                hits.map(({ id }) => id),
                expected.map(({ id }) => id),
            );
            close(
                hits.map(({ score }) => score),
                expected.map(({ score }) => score),
                given.tolerance,
            );
            equal(
                hits.every(({ payload }) => payload["language"] === where["language"]),
                true,
            );
        };
        await check(given.hits);
        equal(await collection.deletePoints({ ids: given.deleted }), given.deleted.length);
        await check(given.hits_after_delete);
        const steps = [
            { ids: [60, 70], vectors: given.vectors.slice(0, 2) },
            { ids: [], vectors: [] },
            { ids: [60], vectors: [given.query] },
        ];
        const inserted: number[] = [];
        for await (const count of collection.upsertMany(steps)) inserted.push(count);
        equal(inserted, [2, 0, 0]);
        const points: Point[] = [];
        for await (const point of collection.scroll({ pageSize: 2, vectors: true })) points.push(point);
        equal(
            points.map(({ id }) => id),
            [10, 20, 40, 50, 60, 70],
        );
        equal([...points[4]!.vector!], given.query);
        equal(
            (await collection.get([20, 999])).map(({ payload }) => payload["line"]),
            [1],
        );
    } finally {
        await collection.delete();
    }
}

async function parse(client: BaseClient, { parse: given }: Cases): Promise<void> {
    const [parsed, broken] = await client.parse([given.source, given.broken], { outputs: ["tree", "outline"] });
    equal(parsed!.nodes.kinds.length, given.node_count);
    equal(
        parsed!.outline.map((item) => ({ qualified_name: item.qualifiedName, line: item.line })),
        given.outline,
    );
    equal(parsed!.name(0), "os");
    const { message, line, column } = broken!.diagnostic!;
    equal({ message, line, offset: column }, given.diagnostic);
    equal([parsed!.isValid, broken!.isValid, broken!.nodes.kinds.length], [true, false, 0]);
    const sequences: number[] = [];
    for await (const { sequence, value } of client.parseStream([[given.source], [given.broken, given.source]])) {
        equal(value!.at(-1)!.nodes.kinds.length, given.node_count);
        sequences.push(sequence);
    }
    equal(sequences.sort(), [0, 1]);
}

async function tensor(client: BaseClient, { tensor: given }: Cases): Promise<void> {
    const graph = new Graph();
    const product = graph.op("matmul", [graph.input(Tensor.from(given.a)), graph.input(Tensor.from(given.b))]);
    const softmax = graph.op("softmax", [product], { dim: -1 });
    const [computed] = await client.execute([softmax]);
    close(computed!.toFloat32(), given.softmax_of_product.flat(), given.tolerance);
    const [kept] = await client.keep([softmax]);
    const uploaded = await client.upload(Tensor.from(Int32Array.of(1, -2)));
    try {
        equal((await client.download(kept!)).toArray(), computed!.toArray());
        equal((await client.download(uploaded)).toArray(), [1, -2]);
    } finally {
        await client.free([kept!, uploaded]);
    }
}

async function kernel(client: BaseClient, { kernel: given }: Cases): Promise<void> {
    const program = { source: given.source, name: given.name, dialect: "warp" as const };
    const args = { a: given.a, x: Float32Array.from(given.x), y: given.y };
    const { outputs } = await client.launch(program, args, { grid: given.grid });
    equal(outputs["y"]!.toArray(), given.written_y);
    const fault = await failure(client.launch(program, args, { grid: given.faulting_grid }));
    if (!(fault instanceof KernelFault)) throw fault;
    const { kind, thread, line, index, extent } = fault;
    const found = {
        kind: `KERNEL_FAULT_KIND_${kind.toUpperCase()}`,
        thread: Number(thread),
        line,
        index: Number(index),
        extent: Number(extent),
    };
    equal(found, given.fault);
}

async function compare(client: BaseClient, { verify: given }: Cases): Promise<void> {
    const [actual, expected] = [given.actual, given.expected].map((values) => Tensor.from(values));
    const { passed, outputs } = await client.compare(actual!, expected!, { atol: given.atol, rtol: given.rtol });
    equal(passed, given.passed);
    const { failedCount, mismatches } = outputs[0]!.differences!;
    equal(Number(failedCount), given.failed_count);
    equal(
        mismatches.map((one) => ({ index: Number(one.index), actual: one.actual, expected: one.expected })),
        [given.mismatch],
    );
    equal((await client.compare(actual!, expected!, { atol: given.atol, rtol: given.passing_rtol })).passed, true);
}

async function errors(client: BaseClient, { errors: given }: Cases): Promise<void> {
    for (const one of given) {
        const calls = {
            find_similar: () => "rows" in one && client.findSimilar(one.rows, one.rows, one.k),
            count: () => "collection" in one && client.collection(one.collection).count(),
            embed: () => "texts" in one && client.embed(one.texts, { model: one.model }),
        };
        const { code, rawMessage, reason, violations } = await errorOf(Promise.resolve(calls[one.call]()));
        const found = { code, message: rawMessage, reason, fields: violations.map(({ field }) => field) };
        equal(found, { code: one.code, message: one.message, reason: one.reason, fields: one.fields });
    }
}

function slow(client: BaseClient, { slow_kernel: given }: Cases, options: { timeoutMs?: number; signal?: AbortSignal }): Promise<unknown> {
    return client.launch(
        { source: given.source, name: given.name, dialect: "warp" },
        { y: Tensor.from(given.y) },
        { grid: given.grid, ...options },
    );
}

/** The end of an iteration does not wait for input that never comes. */
async function cancelledStream(client: BaseClient, cases: Cases): Promise<void> {
    async function* batches() {
        yield cases.embed.texts;
        await new Promise(() => undefined);
    }
    for await (const { value } of client.embedStream(batches())) {
        checkVectors(cases, value!);
        break;
    }
}

/** The calls by name. */
export const CALLS: Record<string, (client: BaseClient, cases: Cases) => Promise<void>> = {
    embed: async (client, cases) => checkVectors(cases, await client.embed(cases.embed.texts)),
    embed_stream: async (client, cases) => {
        const seen: number[] = [];
        for await (const { sequence, value } of client.embedStream([cases.embed.texts, cases.embed.texts])) {
            checkVectors(cases, value!);
            seen.push(sequence);
        }
        equal(seen.sort(), [0, 1]);
    },
    search,
    parse,
    tensor,
    kernel,
    verify: compare,
    errors,
    deadline: async (client, cases) => {
        const { code } = await errorOf(slow(client, cases, { timeoutMs: cases.slow_kernel.deadline_ms }));
        equal(code, cases.slow_kernel.code);
    },
    cancellation: async (client, cases) => {
        const controller = new AbortController();
        const call = errorOf(slow(client, cases, { signal: controller.signal }));
        controller.abort();
        equal((await call).code, "CANCELLED");
        equal((await errorOf(client.devices({ signal: controller.signal }))).code, "CANCELLED");
    },
    cancelled_stream: cancelledStream,
    server_stream: async (client) => {
        const versions: string[] = [];
        for await (const { version } of client.watch({ intervalMs: 100 })) {
            versions.push(version);
            if (versions.length === 2) break;
        }
        equal(versions, [(await client.stats()).version, versions[0]]);
    },
};
