// The slider of each photograph; comparison.css has what it looks like, and what the page is without this program.
document.body.className = "slides";
for (const slider of document.querySelectorAll("input")) {
  const show = () => slider.parentElement.style.setProperty("--shown", `${slider.value}%`);
  slider.addEventListener("input", show);
  show(); // a browser that goes back to the page keeps where the slider was
}
