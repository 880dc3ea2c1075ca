/** A reporter of node's test runner: a dot for each test, the error of each that fails, and the counts of the outcomes. */

import { inspect } from "node:util";

export default async function* summary(events) {
    let passed = 0;
    let failed = 0;
    let skipped = 0;
    for await (const { type, data } of events) {
        if ((type !== "test:pass" && type !== "test:fail") || data.details?.type === "suite") continue;
        if (data.skip !== undefined) {
            skipped += 1;
        } else if (type === "test:pass") {
            passed += 1;
            yield ".";
        } else {
            failed += 1;
            yield `\n${data.name} (${data.file}:${data.line})\n${inspect(data.details.error.cause ?? data.details.error)}\n`;
        }
    }
    yield `\n${passed} passed, ${failed} failed, ${skipped} skipped\n`;
}
