// Files that are chosen, photographed or dropped anywhere on a record's page are sent one after the other, each with its
// progress. The answer is the whole page, from which the list is taken. A product's picture is made small before.
"use strict";

{
  const form = document.querySelector("form.upload");
  const uploads = document.getElementById("uploads"), main = document.getElementById("main");
  const { max, side, empty, large, failed } = form.dataset;

  // As a JPEG, which has no place where it was taken; as it is if this browser cannot read it.
  const shrunk = async (file) => {
    if (!side || !file.type.startsWith("image/")) return file;
    try {
      const image = await createImageBitmap(file), canvas = document.createElement("canvas");
      const scale = Math.min(1, side / Math.max(image.width, image.height));
      [canvas.width, canvas.height] = [image.width, image.height].map((one) => Math.max(1, Math.round(one * scale)));
      const context = canvas.getContext("2d");
      context.fillStyle = "#fff";
      context.fillRect(0, 0, canvas.width, canvas.height);
      context.imageSmoothingQuality = "high";
      context.drawImage(image, 0, 0, canvas.width, canvas.height);
      const jpeg = await new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.85));
      return jpeg ? new File([jpeg], file.name.replace(/(\.\w+)?$/, ".jpg")) : file;
    } catch {
      return file;
    }
  };
  const post = (data, progress) =>
    new Promise((resolve) => {
      const request = new XMLHttpRequest();
      request.upload.onprogress = ({ loaded, total }) => (progress.value = loaded / total);
      request.onloadend = () => resolve(request);
      request.open("POST", form.action);
      request.send(data);
    });
  // Why a file was not taken; nothing if it was.
  const refused = async (file, progress) => {
    if (!file.size) return empty;
    const small = await shrunk(file), data = new FormData();
    if (small.size > max) return large;
    data.set("csrf_token", form.elements.csrf_token.value);
    data.set("file", small, small.name);
    const { status, responseText } = await post(data, progress);
    const page = parse(responseText);
    if (!page.getElementById("file-list")) return page.querySelector(".error-about p")?.textContent || (status === 413 ? large : failed);
    for (const id of ["file-list", "picture", "timeline", "messages"]) {
      const [old, fresh] = [document, page].map((one) => one.getElementById(id));
      if (old && fresh) old.replaceWith(document.adoptNode(fresh));
    }
  };
  const upload = async (file, line) => {
    const reason = await refused(file, line.lastChild).catch(() => failed);
    if (!reason) return line.remove();
    line.className = "text-danger";
    line.textContent = `${file.name}: ${reason}`;
  };
  let sent = Promise.resolve();
  const add = (files) => {
    for (const file of files) {
      const line = document.createElement("li"), name = document.createElement("span");
      const progress = Object.assign(document.createElement("progress"), { value: 0, ariaLabel: file.name });
      name.textContent = file.name;
      line.append(name, progress);
      uploads.append(line);
      sent = sent.then(() => upload(file, line));
    }
    uploads.scrollIntoView({ block: "nearest" });
  };
  form.addEventListener("change", ({ target }) => {
    add([...target.files]);
    target.value = "";
  });
  for (const kind of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(kind, (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      main.classList.toggle("over", kind === "dragover" || (kind === "dragleave" && !!event.relatedTarget));
      if (kind === "drop") add(event.dataTransfer.files);
    });
  }
}
