// Asks before something is done that cannot be undone.

import {useEffect, useRef} from "preact/hooks";
import {Store, useStore} from "./store.js";

const question = new Store(null);

// Resolves to true if the user agrees.
export const confirmed = ({title, text, action}) =>
  new Promise(answer => question.set({title, text, action, answer}));

export function ConfirmDialog() {
  const asked = useStore(question);
  const dialog = useRef(null);
  useEffect(() => {
    if (asked && !dialog.current.open) dialog.current.showModal();
  }, [asked]);
  const end = answer => {
    dialog.current.close();
    asked?.answer(answer);
    question.set(null);
  };
  return (
    <dialog ref={dialog} role="alertdialog" aria-labelledby="confirm-title" aria-describedby="confirm-text"
            onCancel={event => { event.preventDefault(); end(false); }}>
      <h2 id="confirm-title">{asked?.title}</h2>
      <p id="confirm-text">{asked?.text}</p>
      <p class="buttons">
        <button type="button" onClick={() => end(false)}>Keep it</button>
        <button type="button" class="danger" onClick={() => end(true)}>{asked?.action}</button>
      </p>
    </dialog>
  );
}
