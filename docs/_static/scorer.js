"use strict";

// The search's points: pages that were written come before those made from docstrings.
const generated = (page) => page.startsWith("_generated/api/");

var Scorer = {
  score: ([page, title, anchor, description, points]) => (generated(page) ? points - 1000 : points),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
