// Addresses of daemons, and the rule of where a token may go.

/** The address of a daemon. */
export interface Target {
    /** As the caller wrote it. */
    readonly text: string;
    readonly scheme: "http" | "https" | "unix";
    /** Path of a Unix socket, or empty. */
    readonly path: string;
    /** `http://host:port` of the requests. */
    readonly origin: string;
}

const EXPECTED = "expected host:port, http://host:port, https://host:port or unix:/path";

/** Returns the addresses of a target: one, several separated by commas, or a list. */
export function readTargets(target: string | readonly string[]): Target[] {
    const texts = typeof target === "string" ? target.split(",").map((one) => one.trim()) : target;
    if (texts.length === 0) throw new RangeError(`target: ${EXPECTED}, got none`);
    return texts.map(readTarget);
}

function readTarget(text: string): Target {
    if (text.startsWith("unix:")) {
        // `unix:/path` and `unix:///path` are the same path.
        const path = text.slice("unix:".length).replace(/^\/\/(?=\/)/, "");
        if (path === "") throw new RangeError(`target: ${EXPECTED}, got "${text}"`);
        return { text, scheme: "unix", path, origin: "http://localhost" };
    }
    const url = readUrl(text);
    if (url === undefined) throw new RangeError(`target: ${EXPECTED}, got "${text}"`);
    return { text, scheme: url.protocol === "https:" ? "https" : "http", path: "", origin: url.origin };
}

function readUrl(text: string): URL | undefined {
    const [, scheme = "http", address = ""] = /^(?:(https?):\/\/)?([^/@?#]+)\/?$/.exec(text) ?? [];
    // Other schemes of gRPC, such as `dns:`, have no host before the last colon.
    if (/^(dns|ipv4|ipv6|vsock|xds|unix-abstract):/.test(address)) return undefined;
    const url = URL.canParse(`${scheme}://${address}`) ? new URL(`${scheme}://${address}`) : undefined;
    return url === undefined || url.port === "0" ? undefined : url;
}

/** Returns whether nobody on the network can read what is sent to an address. */
export function isLocal(target: Target): boolean {
    if (target.scheme === "unix") return true;
    const { hostname } = new URL(target.origin);
    return hostname === "localhost" || hostname === "[::1]" || /^127(\.\d+){3}$/.test(hostname);
}

/** Returns a token that may be sent to these addresses; undefined if there is none. */
export function checkedToken(token: string | undefined, targets: readonly Target[], allowPlaintext: boolean): string | undefined {
    if (token === undefined || token === "") return undefined;
    if (!/^[!-~]+$/.test(token)) throw new RangeError("token: expected visible ASCII characters without spaces");
    const exposed = allowPlaintext ? undefined : targets.find((target) => target.scheme === "http" && !isLocal(target));
    if (exposed === undefined) return token;
    throw new RangeError(
        `token: refusing to send it to "${exposed.text}" in plaintext, where others can read it: use https://, or ` +
            "allowPlaintextToken if the network encrypts by other means",
    );
}
