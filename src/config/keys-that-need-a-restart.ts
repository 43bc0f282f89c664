/** Keys whose changes a running gateway applies; every other key needs a restart. */
const RELOADED =
  /^(servers|agents|views)(\.|$)|^routing\.(exposure|pinned|learn|keepTexts)$|^log\.level$|^pin$|^policy\.(rules|mode|proposed)$|^reload(\.|$)/;

/** Whether a change of this key takes effect only after a restart. */
export function needsRestart(key: string): boolean {
  return !RELOADED.test(key);
}
