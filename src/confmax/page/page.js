(function () {
  "use strict";
  var font = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
  // colours are CSS variables: light, dark and print follow the page without drawing again
  var config = {
    background: "transparent",
    font: font,
    view: { stroke: null },
    axis: {
      labelColor: "var(--soft)", titleColor: "var(--soft)", gridColor: "var(--line)", domainColor: "var(--line-strong)",
      tickColor: "var(--line-strong)", labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal"
    },
    legend: { disable: true } // the keys are text of the page
  };
  var options = { mode: "vega-lite", renderer: "svg", actions: false, config: config, tooltip: { theme: "custom" } };
  var specs = JSON.parse(document.getElementById("specs").textContent);
  var views = [];
  function draw(box) {
    var spec = specs[box.dataset.chart];
    return vegaEmbed(box, spec, options).then(function (made) {
      views.push(made.view);
      // the table beside it is what screen readers get; the drawing is one image with a name
      var svg = box.querySelector("svg");
      svg.setAttribute("aria-hidden", "true");
      // a click on a point that has a rule shows it in words
      made.view.addEventListener("click", function (_, item) {
        var rule = item && item.datum && item.datum.rule;
        if (!rule) { return; }
        var words = box.parentNode.querySelector(".picked");
        if (!words) {
          words = document.createElement("pre");
          words.className = "picked";
          box.parentNode.insertBefore(words, box.nextSibling);
        }
        words.textContent = rule;
      });
    });
  }
  var boxes = Array.prototype.slice.call(document.querySelectorAll(".chart"));
  Promise.all(boxes.map(draw)).then(function () {
    document.documentElement.dataset.drawn = String(boxes.length);
  });
  // on paper every number is there
  var closed = [];
  window.addEventListener("beforeprint", function () {
    closed = Array.prototype.slice.call(document.querySelectorAll("details:not([open])"));
    closed.forEach(function (each) { each.open = true; });
  });
  window.addEventListener("afterprint", function () {
    closed.forEach(function (each) { each.open = false; });
  });
})();
