// Asks for the API key when the server begins to want one, and when the user wants to give one. Once the dialog is closed,
// only the banner's button opens it again.

import {useEffect, useRef} from "preact/hooks";
import {giveKey, keyState} from "./api.js";
import {Store, useStore} from "./store.js";

const asked = new Store(0);

export const askForKey = () => asked.update(times => times + 1);

export function KeyDialog() {
  const state = useStore(keyState), times = useStore(asked);
  const dialog = useRef(null), field = useRef(null);
  useEffect(() => {
    if (state !== "" && !dialog.current.open) dialog.current.showModal();
    if (state === "" && dialog.current.open) dialog.current.close();
    if (state === "wrong") field.current.select();
  }, [state, times]);
  const give = event => {
    event.preventDefault();
    giveKey(field.current.value.trim());
  };
  return (
    <dialog ref={dialog} aria-labelledby="key-title">
      <form onSubmit={give}>
        <h2 id="key-title">This server asks for an API key</h2>
        <p class="soft" id="key-note">It is kept in this tab until you close it.</p>
        <label>API key
          <input ref={field} type="password" name="key" autocomplete="off" required aria-describedby="key-note key-error"
                 aria-invalid={state === "wrong"}/>
        </label>
        <p class="error" id="key-error" role="alert">{state === "wrong" ? "The server does not know this key." : ""}</p>
        <p class="buttons"><button class="main" type="submit">Use this key</button></p>
      </form>
    </dialog>
  );
}
