-- Clients and deals are erased 30 days after their deletion: who refers to one is looked up.

CREATE INDEX lead_client ON lead (client_id) WHERE client_id IS NOT NULL;
CREATE INDEX deal_client_id ON deal (client_id) WHERE client_id IS NOT NULL;
