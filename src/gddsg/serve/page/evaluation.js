// Results of several parts of a folder as one, without the page.

const sumBy = (items, keyOf, numbers) => {
  const found = new Map();
  for (const item of items) {
    const key = keyOf(item), there = found.get(key);
    if (!there) found.set(key, { ...item });
    else for (const name of numbers) there[name] += item[name];
  }
  return [...found.values()];
};

export const joined = (results) => {
  const classes = sumBy(results.flatMap((one) => one.classes), (one) => one.label, ["photos", "correct", "rejected"]);
  for (const one of classes) one.accuracy = one.correct / one.photos;
  const confusions = sumBy(results.flatMap((one) => one.confusions), (one) => JSON.stringify([one.label, one.taken_for]), ["photos"]);
  const total = (name) => results.reduce((sum, one) => sum + (one[name] ?? 0), 0);
  return {
    photos: total("photos"),
    mistaken: total("photos") - classes.reduce((sum, one) => sum + one.correct, 0),
    accuracy: classes.reduce((sum, one) => sum + one.correct, 0) / total("photos"),
    average_accuracy: classes.reduce((sum, one) => sum + one.accuracy, 0) / classes.length,
    classes: classes.sort((a, b) => a.accuracy - b.accuracy || b.photos - a.photos),
    confusions: confusions.sort((a, b) => b.photos - a.photos),
    wrong: results.flatMap((one) => one.wrong).sort((a, b) => b.probability - a.probability),
    unlearnt: [...new Set(results.flatMap((one) => one.unlearnt ?? []))],
    skipped: results.flatMap((one) => one.skipped ?? []),
    learnt_photos: total("learnt_photos"),
  };
};

// The classes that matter for a table: those most often mixed up, and not more than fit.
export const tableOf = ({ classes, confusions }, most) => {
  const weight = new Map(classes.map((one) => [one.label, 0]));
  for (const { label, taken_for: other, photos } of confusions) {
    for (const name of [label, other]) weight.set(name, (weight.get(name) ?? 0) + photos);
  }
  const all = [...weight.keys()], some = all.length > most ? all.filter((name) => weight.get(name)) : all;
  const names = some.sort((a, b) => weight.get(b) - weight.get(a) || (a < b ? -1 : 1)).slice(0, most).sort();
  const count = new Map(confusions.map((one) => [JSON.stringify([one.label, one.taken_for]), one.photos]));
  for (const one of classes) count.set(JSON.stringify([one.label, one.label]), one.correct);
  const tested = new Set(classes.map((one) => one.label));
  return {
    columns: names,
    rows: names.filter((name) => tested.has(name)).map((truth) => ({ truth, cells: names.map((other) => count.get(JSON.stringify([truth, other])) ?? 0) })),
    whole: names.length === all.length,
  };
};
