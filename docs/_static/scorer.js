"use strict";

// The search's points: the guide comes first, then other pages, then lists and measurements, last what is made from docstrings.
const guide = ["threshold", "finite_n", "descents", "tutorials/own_network", "cluster"];
const lists = ["accuracy", "api", "changes", "contributing", "gallery", "journal", "notation"];

const more = (page, anchor) => {
  if (page.startsWith("_generated/api/")) return -1000;
  if (page === "programs" && anchor.startsWith("#cmdoption")) return 6;
  if (guide.includes(page)) return 3;
  return lists.includes(page) || page.startsWith("appendix_") ? -3 : 0;
};

var Scorer = {
  score: ([page, title, anchor, description, points]) => points + more(page, anchor),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
