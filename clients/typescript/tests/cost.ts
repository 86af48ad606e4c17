/** How the time of `work` grows when its size grows tenfold, in the best of five rounds. */
export function growth(work: (size: number) => void, size: number): number {
  const best = { small: Number.POSITIVE_INFINITY, large: Number.POSITIVE_INFINITY };
  for (let round = 0; round < 5; round += 1) {
    best.small = Math.min(best.small, time(work, size));
    best.large = Math.min(best.large, time(work, size * 10));
  }
  return best.large / best.small;
}

/** Work that reads its input again for each piece grows a hundredfold. */
export const LINEAR = 40;

/** Processor time, which other programs do not lengthen as they do the time on the wall. */
function time(work: (size: number) => void, size: number): number {
  const start = process.cpuUsage();
  work(size);
  const { user, system } = process.cpuUsage(start);
  return user + system;
}
