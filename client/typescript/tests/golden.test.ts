// The golden suite in Node. The driver, tests/golden, sets the variables that name its daemons.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { after, describe, test } from "node:test";
import { Client, DeviceService, EmbedService, Graph, Tensor, TensorService } from "../src/node.js";
import { CALLS, type Cases, checkVectors, equal, errorOf, failure } from "./golden_calls.js";

const variable = (name: string) => process.env[`ACCELERD_GOLDEN_${name}`] ?? "";
const path = variable("CASES");
const BULK = ["dist/examples/upsert.js", "--target", variable("TARGET"), "--points", "1500", "--dimensions", "8", "--batch", "1000"];

describe("golden", { skip: path === "" ? "ACCELERD_GOLDEN_CASES is not set" : false }, () => {
    const cases = path === "" ? ({} as Cases) : (JSON.parse(readFileSync(path, "utf8")) as Cases);
    const client = new Client(variable("TARGET") || "localhost:1");
    after(() => client.close());

    for (const [name, call] of Object.entries(CALLS)) test(name, () => call(client, cases));

    test("stubs", async () => {
        const { version } = await client.stub(DeviceService).getStats({});
        for await (const { stats } of client.stub(DeviceService).watch({})) {
            equal(stats?.version, version);
            break;
        }
        const texts = { case: "texts" as const, value: { values: cases.embed.texts } };
        for await (const response of client.stub(EmbedService).embedStream([{ embed: { input: texts } }]))
            equal(response.result.case, "embed");
        const header = { dtype: 3, shape: [1n] };
        const { tensor } = await client.stub(TensorService).uploadTensor([{ header, data: new Uint8Array(4) }]);
        await client.stub(TensorService).freeTensors({ handles: [tensor!.handle] });
    });

    test("verify of functions", async () => {
        const double = (body: string) => `def f(x: float) -> float:\n    return ${body}\n`;
        const progress: number[] = [];
        const onProgress = (done: number) => progress.push(done);
        const passed = await client.verify(double("2.0 * x"), double("x + x"), { count: 1_000, onProgress });
        equal([passed.passed, Number(passed.caseCount), progress.at(-1)], [true, 1_000, 1_000]);
        const failed = await client.verify(double("2.0 * x"), double("3.0 * x"), { count: 100, domains: { x: { min: 1, max: 2 } } });
        equal([failed.passed, failed.functions?.counterexamples.length !== 0], [false, true]);
    });

    test("verify of outputs that are computed already", async () => {
        const outputs = { result: Tensor.from([2, 4], "f64") };
        const inputs = { x: Tensor.from([1, 2], "f64") };
        const report = await client.verify({ outputs }, "def f(x: float) -> float:\n    return 2.0 * x\n", { cases: inputs });
        equal([report.passed, Number(report.caseCount)], [true, 2]);
        const wrong = client.verify({ outputs }, "", { cases: { x: Tensor.from([1]) } });
        equal(String(await failure(wrong)), "RangeError: cases: expected 2 in all tensors, got 1");
    });

    test("inputs of a graph that exceed a message are uploaded, and freed", async () => {
        const small = new Client(variable("TARGET"), { maxMessageBytes: (1 << 20) + 1_000 });
        const graph = new Graph();
        const x = graph.input(Tensor.from(new Float32Array(1_000).fill(1)));
        const [sum] = await small.execute([graph.op("sum", [graph.op("add", [x, graph.input(Tensor.from([2]))])])]);
        equal([sum!.toArray(), (await small.listTensors()).length], [3_000, 0]);
        small.close();
    });

    test("outputs of a graph that exceed a message are kept and downloaded, and freed", async () => {
        const graph = new Graph();
        const one = graph.input(Tensor.from([[1]]));
        const [large] = await client.execute([graph.op("expand", [one], { shape: [17, 1 << 20] })]);
        equal([large!.shape, large!.data.every((element) => element === 1), (await client.listTensors()).length], [[17, 1 << 20], true, 0]);
    });

    test("calls that exceed a message are made in parts", async () => {
        const small = new Client(variable("TARGET"), { maxMessageBytes: (64 << 10) + 200 });
        checkVectors(cases, await small.embed(cases.embed.texts));
        const sources = Array.from({ length: 3 }, () => cases.parse.source + "#".repeat(10_000));
        const parsed = await small.parse(sources);
        equal(
            parsed.map(({ nodes }) => nodes.kinds.length),
            sources.map(() => cases.parse.node_count),
        );
        const collection = await small.createCollection("golden-typescript-parts", { dimensions: 8 });
        try {
            const ids = BigUint64Array.from({ length: 10_000 }, (_, at) => BigInt(at));
            const vectors = new Tensor("f32", [ids.length, 8], new Float32Array(8 * ids.length).fill(1));
            equal(await collection.upsert({ ids, vectors }), ids.length);
            equal(await collection.count(), ids.length);
        } finally {
            await collection.delete();
            small.close();
        }
    });

    test("several calls share a connection, and connections take turns", async () => {
        const many = new Client(variable("TARGET"), { connections: 2 });
        const found = await Promise.all(Array.from({ length: 20 }, () => many.embed(cases.embed.texts)));
        for (const vectors of found) checkVectors(cases, vectors);
        many.close();
    });

    test("a target that cannot be reached gets no calls", async () => {
        const either = new Client(["http://127.0.0.1:1", variable("TARGET")], { attempts: 2 });
        for (let call = 0; call < 4; call += 1) checkVectors(cases, await either.embed(cases.embed.texts));
        either.close();
    });

    test("tls", async () => {
        const tls = { ca: variable("CA") };
        const known = new Client(variable("TLS_TARGET"), { tls, token: variable("TOKEN") });
        checkVectors(cases, await known.embed(cases.embed.texts));
        const unknown = new Client(variable("TLS_TARGET"), { tls });
        const { code, reason } = await errorOf(unknown.embed(["x"]));
        equal({ code, reason }, cases.without_token);
        const distrusting = new Client(variable("TLS_TARGET"), { timeoutMs: 300 });
        const refused = await errorOf(distrusting.embed(["x"]));
        equal([refused.code, refused.isSent, /certificate/.test(refused.message)], ["UNAVAILABLE", false, true]);
        for (const one of [known, unknown, distrusting]) one.close();
    });

    test("the README's first lines and the examples run", () => {
        const package_ = new URL("../../", import.meta.url);
        const [, lines = ""] = /^```ts\n(.*?)^```$/ms.exec(readFileSync(new URL("README.md", package_), "utf8")) ?? [];
        const scripts = [["--input-type=module", "--eval", lines], ["dist/examples/quickstart.js"], BULK];
        const env = { ...process.env, ACCELERD_SERVER: variable("TARGET") };
        const [readme, quickstart, bulk] = scripts.map((script) =>
            execFileSync(process.execPath, script, { env, cwd: package_, encoding: "utf8" }),
        );
        equal(
            [readme, quickstart].map((text) => text?.includes("open a socket")),
            [true, true],
        );
        equal((JSON.parse(bulk ?? "") as { points: number }).points, 1_500);
    });

    test("a call survives a restart", async () => {
        checkVectors(cases, await client.embed(cases.embed.texts));
        execFileSync("bash", ["-c", variable("RESTART")]);
        checkVectors(cases, await client.embed(cases.embed.texts));
    });

    test("a stream survives a restart", async () => {
        const sequences: number[] = [];
        function* batches() {
            for (let at = 0; at < 4; at += 1) {
                if (at === 2) execFileSync("bash", ["-c", variable("RESTART")]);
                yield cases.embed.texts;
            }
        }
        for await (const { sequence, value } of client.embedStream(batches())) {
            checkVectors(cases, value!);
            sequences.push(sequence);
        }
        equal(sequences.sort(), [0, 1, 2, 3]);
    });
});
