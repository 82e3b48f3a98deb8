// Random numbers from a fixed seed: the same figure is drawn into the same bytes.
let state = 1;
Math.random = () => {
  state = (state * 48271) % 2147483647;
  return state / 2147483647;
};
