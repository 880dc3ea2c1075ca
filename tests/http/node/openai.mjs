// Calls the embeddings of a daemon by OpenAI's SDK, and prints what it got.
import OpenAI from "openai";

const sdk = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: "none", maxRetries: 0 });
const input = JSON.parse(process.env.TEXTS);
const vectors = async (body) => (await sdk.embeddings.create(body)).data.map((one) => one.embedding);
const missing = await sdk.embeddings.create({ model: "other", input }).catch((error) => [error.constructor.name, error.status]);
const models = [];
for await (const model of sdk.models.list()) models.push(model.id);
console.log(
  JSON.stringify({
    // The SDK asks for base64 by itself.
    vectors: await vectors({ model: "bert", input }),
    one: (await vectors({ model: "bert", input: input[0] }))[0],
    floats: await vectors({ model: "bert", input, encoding_format: "float" }),
    short: await vectors({ model: "builtin", input: "a", dimensions: 64 }),
    missing,
    models,
  }),
);
