// Before the first paint: light or dark, so that the page does not flash.
(function () {
  let wanted = "system";
  try { wanted = localStorage.getItem("bbp-theme") || "system"; } catch (error) { /* storage is closed to this page */ }
  const dark = wanted === "dark" || (wanted === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.classList.toggle("dark", dark);
})();
// A page that is left may be kept whole, to be shown again: it lets go of its server, which else works on for nobody, and is
// loaded anew when it comes back.
(function () {
  const open = new Set(), Plain = window.WebSocket;
  window.WebSocket = class extends Plain {
    constructor(...words) {
      super(...words);
      open.add(this);
      this.addEventListener("close", () => open.delete(this));
    }
  };
  window.addEventListener("pagehide", () => { for (const socket of open) socket.close(); });
  window.addEventListener("pageshow", (event) => { if (event.persisted && document.getElementById("draw")) location.reload(); });
})();
