// The key is kept for as long as the tab is open, below the path of this documentation alone:
// Swagger UI's own persistAuthorization would keep it on the disk for ever.
const KEPT = `crm:${location.pathname.replace(/\/$/, "")}:key`;
const keepKey = () => ({
  statePlugins: {
    auth: {
      wrapActions: {
        authorize: (authorize) => (payload) => {
          sessionStorage.setItem(KEPT, JSON.stringify(payload));
          return authorize(payload);
        },
        logout: (logout) => (names) => {
          sessionStorage.removeItem(KEPT);
          return logout(names);
        },
      },
    },
  },
});

const ui = SwaggerUIBundle({
  url: new URL("../openapi.json", document.currentScript.src).href,
  dom_id: "#swagger-ui",
  deepLinking: true,
  docExpansion: "none",
  filter: true,
  validatorUrl: null,
  plugins: [keepKey],
  onComplete: () => {
    const kept = sessionStorage.getItem(KEPT);
    if (kept) ui.authActions.authorize(JSON.parse(kept));
  },
});
