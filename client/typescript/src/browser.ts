// The entry for browsers: gRPC-Web over `fetch`, to the daemon's HTTP port.

import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { BaseClient, type ClientOptions } from "./client.js";
import { Connections } from "./connections.js";
import { checkedToken, readTargets } from "./target.js";
import { systemClock } from "./timeout.js";

export * from "./index.js";

/** A client of a daemon's HTTP port, whose setting `http.origins` must have the page's origin. */
export class Client extends BaseClient {
    /** Creates a client of `http://host:port` or `https://host:port`, by default http://localhost:7436; or of several, in turns. */
    constructor(target: string | readonly string[] = "http://localhost:7436", options: ClientOptions = {}) {
        const targets = readTargets(target);
        const unix = targets.find(({ scheme }) => scheme === "unix");
        if (unix !== undefined) throw new RangeError(`target: expected http:// or https:// in a browser, got "${unix.text}"`);
        const connections = targets.map(({ origin }) => ({
            target: origin,
            usesFetch: true,
            transport: createGrpcWebTransport({ baseUrl: origin }),
            close: () => undefined,
        }));
        const token = checkedToken(options.token, targets, options.allowPlaintextToken ?? false);
        super(new Connections(connections, systemClock, false), token, options);
    }
}
