// Measures bulk writes: node dist/examples/upsert.js --points 100000 --dimensions 256 --batch 1000 [--target localhost:7433]

import { parseArgs } from "node:util";
import { Client, Tensor } from "accelerd";

const { values } = parseArgs({
    options: {
        target: { type: "string", default: "localhost:7433" },
        points: { type: "string", default: "100000" },
        dimensions: { type: "string", default: "256" },
        batch: { type: "string", default: "1000" },
    },
});
const [points, dimensions, batch] = [values.points, values.dimensions, values.batch].map(Number) as [number, number, number];

const steps = Array.from({ length: Math.ceil(points / batch) }, (_, step) => {
    const first = step * batch;
    const count = Math.min(batch, points - first);
    const elements = Float32Array.from({ length: count * dimensions }, () => Math.random() - 0.5);
    const ids = BigUint64Array.from({ length: count }, (_, at) => BigInt(first + at));
    return { ids, vectors: new Tensor("f32", [count, dimensions], elements) };
});

const client = new Client(values.target);
const name = `bulk-upsert-${process.pid}`;
const collection = await client.createCollection(name, { dimensions });
try {
    const start = performance.now();
    let written = 0;
    for await (const inserted of collection.upsertMany(steps)) written += inserted;
    const seconds = (performance.now() - start) / 1_000;
    console.log(JSON.stringify({ points: written, seconds }));
} finally {
    await collection.delete();
    client.close();
}
