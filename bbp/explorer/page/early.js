// Before the first paint: light or dark, so that the page does not flash.
(function () {
  let wanted = "system";
  try { wanted = localStorage.getItem("bbp-theme") || "system"; } catch (error) { /* storage is closed to this page */ }
  const dark = wanted === "dark" || (wanted === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.classList.toggle("dark", dark);
})();
