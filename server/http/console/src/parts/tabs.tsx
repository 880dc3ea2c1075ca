/** Tabs, of which one panel is shown. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

export interface Tab {
    name: string;
    /** A number beside the name. */
    note?: string | undefined;
    panel: () => ComponentChildren;
}

export function Tabs({ label, tabs }: { label: string; tabs: Tab[] }) {
    const id = useId();
    const chosen = useSignal("");
    const current = Math.max(
        0,
        tabs.findIndex((tab) => tab.name === chosen.value),
    );
    const onKeyDown = (event: KeyboardEvent & { currentTarget: HTMLElement }) => {
        const to = { ArrowRight: current + 1, ArrowLeft: current - 1, Home: 0, End: tabs.length - 1 }[event.key];
        if (to === undefined) return;
        event.preventDefault();
        const next = (to + tabs.length) % tabs.length;
        chosen.value = tabs[next]!.name;
        event.currentTarget.querySelectorAll<HTMLElement>("[role=tab]")[next]?.focus();
    };
    return (
        <div class="tabs">
            <div role="tablist" aria-label={label} onKeyDown={onKeyDown}>
                {tabs.map(({ name, note }, index) => (
                    <button
                        key={name}
                        type="button"
                        role="tab"
                        id={`${id}-${index}`}
                        aria-selected={index === current}
                        aria-controls={`${id}-panel`}
                        tabIndex={index === current ? 0 : -1}
                        onClick={() => (chosen.value = name)}
                    >
                        {name}
                        {note && " "}
                        {note && <span class="note">{note}</span>}
                    </button>
                ))}
            </div>
            <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${current}`} key={tabs[current]?.name}>
                {tabs[current]?.panel()}
            </div>
        </div>
    );
}
