// Embeds, stores and searches texts: node dist/examples/quickstart.js, with a daemon at localhost:7433 or ACCELERD_SERVER.

import { AccelerdError, Client } from "accelerd";

const client = new Client();
const code = await client.createCollection("quickstart", { model: "builtin" });
try {
    const texts = ["open a socket", "compress a file", "parse a date"];
    await code.upsert({ ids: [1, 2, 3], texts, payloads: texts.map((text) => ({ text })) });
    const [hits = []] = await code.search({ texts: ["tcp connection"] }, { k: 2 });
    for (const { id, score, payload } of hits) console.log(id, score.toFixed(3), payload["text"]);

    const [parsed] = await client.parse(["def f(x):\n    return x\n"], { outputs: ["outline"] });
    console.log(parsed?.outline.map(({ qualifiedName }) => qualifiedName));

    await client.collection("absent").count();
} catch (error) {
    if (!(error instanceof AccelerdError)) throw error;
    console.log(error.code, error.resource?.name);
} finally {
    await code.delete();
    client.close();
}
