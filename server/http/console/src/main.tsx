import { render } from "preact";
import { App } from "./app";
import { watch } from "./watch";

watch();
render(<App />, document.getElementById("app")!);
