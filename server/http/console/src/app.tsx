/** The frame of the page: the views by the fragment of the address, the state of the daemon, and the token. */

import { signal, useSignal } from "@preact/signals";
import type { FunctionComponent } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { token } from "./api";
import { span } from "./format";
import { Failed, useCall } from "./parts/call";
import { Field } from "./parts/layout";
import { Collections } from "./views/collections";
import { Graphs } from "./views/graphs";
import { Kernels } from "./views/kernels";
import { Models } from "./views/models";
import { Overview } from "./views/overview";
import { Parse } from "./views/parse";
import { Verify } from "./views/verify";
import { lost, refused, samples, signIn, signOut } from "./watch";

const VIEWS: [string, string, FunctionComponent<{ rest: string }>][] = [
    ["overview", "Overview", Overview],
    ["collections", "Collections", Collections],
    ["parse", "Parse", Parse],
    ["kernels", "Kernels", Kernels],
    ["verify", "Verify", Verify],
    ["models", "Models", Models],
    ["graphs", "Graphs", Graphs],
];

/** The fragment of the address: `#/collections/NAME`. */
const fragment = signal(location.hash);
addEventListener("hashchange", () => (fragment.value = location.hash));

const signingIn = signal(false);

export function App() {
    const [, path = "", rest = ""] = /^#\/([^/]*)\/?(.*)$/.exec(fragment.value) ?? [];
    const [id, title, View] = VIEWS.find(([id]) => id === path) ?? VIEWS[0]!;
    const heading = useRef<HTMLHeadingElement>(null);
    const isFirst = useRef(true);
    useEffect(() => {
        document.title = `${title} — accelerd`;
        // A reader of the screen is told of the new view; the first one is read with the page.
        if (!isFirst.current) heading.current?.focus();
        isFirst.current = false;
        // In a narrow window not all views fit into the bar.
        const link = document.querySelector<HTMLElement>("nav [aria-current]");
        if (link) link.parentElement!.scrollLeft = link.offsetLeft - link.parentElement!.clientWidth / 2;
    }, [id]);
    return (
        <>
            <a
                class="skip"
                href="#main"
                onClick={(event) => {
                    event.preventDefault();
                    heading.current?.focus();
                }}
            >
                Skip to content
            </a>
            <header class="top">
                <a class="brand" href="#/overview">
                    accelerd
                </a>
                <nav aria-label="Views">
                    {VIEWS.map(([own, name]) => (
                        <a key={own} href={`#/${own}`} aria-current={own === id ? "page" : undefined}>
                            {name}
                        </a>
                    ))}
                </nav>
                <Status />
            </header>
            <main id="main">
                <h1 ref={heading} tabIndex={-1}>
                    {title}
                </h1>
                {(signingIn.value || refused.value) && <SignIn />}
                {/* Another token sees other data. */}
                <View key={`${id} ${token.value}`} rest={rest} />
            </main>
            <footer>
                <a href="/docs">HTTP API</a>
                <span>The console calls this daemon with the rights of its token, and changes no data.</span>
            </footer>
        </>
    );
}

function Status() {
    const last = samples.value.at(-1);
    const state = refused.value ? "refused" : lost.value ? "lost" : !last ? "connecting" : last.draining ? "draining" : "serving";
    return (
        <div class="status">
            <span class={`state ${state}`} role="status">
                {state}
            </span>
            {last && <span class="fact version">v{last.version}</span>}
            {last && <span class="fact">up {span(Number.parseFloat(last.uptime))}</span>}
            {token.value ? (
                <button type="button" class="quiet" onClick={signOut}>
                    Sign out
                </button>
            ) : (
                <button type="button" class="quiet" aria-expanded={signingIn.value} onClick={() => (signingIn.value = !signingIn.value)}>
                    Sign in
                </button>
            )}
        </div>
    );
}

function SignIn() {
    const text = useSignal("");
    const call = useCall(async (signal) => {
        await signIn(text.value.trim(), signal);
        signingIn.value = false;
    });
    const { pending, failure } = call.state.value;
    return (
        <form
            class="signin"
            aria-label="Sign in"
            onSubmit={(event) => {
                event.preventDefault();
                void call.start();
            }}
        >
            <Field label="Token" hint="It stays in this tab until the tab is closed.">
                {(id) => (
                    <input
                        id={id}
                        type="password"
                        autocomplete="off"
                        value={text.value}
                        onInput={(event) => (text.value = event.currentTarget.value)}
                    />
                )}
            </Field>
            <button type="submit" disabled={pending || !text.value.trim()}>
                Sign in
            </button>
            <Failed failure={failure ?? (token.value ? undefined : refused.value)} />
        </form>
    );
}
