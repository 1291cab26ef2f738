// a click on a heading sorts the table by that column, the largest first, then the smallest
(function () {
  "use strict";
  function value(row, k) {
    var cell = row.cells[k];
    var text = cell.dataset.value === undefined ? cell.textContent.trim() : cell.dataset.value;
    var number = parseFloat(text);
    return isNaN(number) ? text.toLowerCase() : number;
  }
  function sort(table, k, falling) {
    var body = table.tBodies[0];
    var rows = Array.prototype.slice.call(body.rows);
    rows.sort(function (one, other) {
      var a = value(one, k), b = value(other, k);
      // what has no number stands last, whichever way
      if (typeof a !== typeof b) { return typeof a === "number" ? -1 : 1; }
      return (a < b ? -1 : a > b ? 1 : 0) * (falling ? -1 : 1);
    });
    rows.forEach(function (row) { body.appendChild(row); });
  }
  Array.prototype.forEach.call(document.querySelectorAll(".sortable table"), function (table) {
    var heads = Array.prototype.slice.call(table.tHead.rows[0].cells);
    heads.forEach(function (head, k) {
      var button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.textContent = "";
      head.appendChild(button);
      button.addEventListener("click", function () {
        // names begin with the first one, numbers with the largest
        var before = head.getAttribute("aria-sort");
        var falling = before === null ? k > 0 : before === "ascending";
        heads.forEach(function (each) { each.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", falling ? "descending" : "ascending");
        sort(table, k, falling);
      });
    });
  });
})();
