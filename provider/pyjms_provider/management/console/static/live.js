// Asks again and again while a view is shown: not while the page is hidden, and not after the view has gone.

import {ApiError} from "./api.js";

let tell = () => {};

// Hears whether the broker answers: `listener(null)`, or with the error.
export function onConnection(listener) {
  tell = listener;
}

export function poll(signal, everyMs, work) {
  let timer = null;
  let busy = false;
  let isWanted = false; // somebody asked while it was busy

  async function turn() {
    timer = null;
    if (signal.aborted || busy) return;
    if (document.hidden) return;
    busy = true;
    const begun = performance.now();
    try {
      await work();
      tell(null);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      tell(error);
    } finally {
      busy = false;
      // A broker that takes long to answer is asked less often.
      const wait = isWanted ? 0 : Math.max(everyMs, 5 * (performance.now() - begun));
      if (!signal.aborted && timer === null) timer = setTimeout(turn, wait);
      isWanted = false;
    }
  }

  function wake() {
    if (busy) isWanted = true;
    if (document.hidden || busy) return;
    if (timer !== null) clearTimeout(timer);
    turn();
  }

  document.addEventListener("visibilitychange", wake, {signal});
  signal.addEventListener("abort", () => timer !== null && clearTimeout(timer));
  turn();
  return wake;
}
